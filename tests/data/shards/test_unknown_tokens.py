"""A text that the vocabulary does not know is named where it is tokenized."""

import numpy as np
import pytest

from keras_attn.data.shards.prepare import prepare, unknown_warning
from keras_attn.data.text_examples import TextExamples
from keras_attn.text.vocabulary import SPECIAL_TOKENS
from keras_attn.text.wordpiece import WordPieceTokenizer

TOKENIZER = WordPieceTokenizer([*SPECIAL_TOKENS, "the", "cat", "sat"])


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("the cat sat\n" * 30, None),
        ("the cat sat\n" * 30 + "le\n", None),
        ("the dog sat\n" * 30, "33%"),
    ],
)
def test_preparing_text_warns_of_unknown_tokens(tmp_path, text, share):
    (tmp_path / "t.txt").write_text(text)
    said = []
    prepare(str(tmp_path / "t.txt"), TOKENIZER, str(tmp_path / "p"), log=said.append)
    warnings = [line for line in said if line.startswith("warning")]
    assert len(warnings) == (share is not None)
    if share:
        assert f"{share} of the tokens are unknown" in warnings[0]
        assert "data.format=jsonl" in warnings[0]


def test_labelled_texts_have_their_share_of_unknown_tokens():
    texts, pairs = ["the cat", "a cat"], ["sat", "sat on the"]
    for second, expected in ((None, 1 / 4), (pairs, 2 / 8)):
        examples = TextExamples(texts, second, np.zeros(2), TOKENIZER, length=16, batch_size=2)
        assert examples.unknown_share == pytest.approx(expected)
    assert unknown_warning(0.04) is None and "25%" in unknown_warning(0.25)
