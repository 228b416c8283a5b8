"""Subwords against sentencepiece's own promises."""

import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.text.subwords import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID, Subwords, train_subwords

TEXTS = [
    "ein Mann fährt Rad .",
    "a man rides a bike .",
    "zwei Männer , drei Räder",
    "two men , three bikes",
] * 5


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def subwords(request):
    return Subwords(train_subwords(TEXTS, 60, request.param))


def test_texts_come_back(subwords):
    ids, ends = subwords.encode([*TEXTS, "", "  "])
    assert ids.dtype == np.int32 and len(ends) == len(TEXTS) + 2
    rows = np.split(ids, ends[:-1])
    assert subwords.decode(rows) == [*TEXTS, "", ""]
    assert ids.min() > UNKNOWN_ID and ids.max() < subwords.vocabulary_size <= 60
    assert subwords.encode([])[0].shape == (0,)


def test_marks_and_what_follows_the_end_are_left_out(subwords):
    ids = subwords.encode(["a man"])[0]
    padded = [BEGIN_ID, *ids, END_ID, ids[0], PAD_ID]
    assert subwords.decode([padded, [END_ID], []]) == ["a man", "", ""]


def test_the_same_texts_give_the_same_model_and_a_file_keeps_it(subwords, tmp_path):
    assert train_subwords(iter(TEXTS), 60, "bpe") == train_subwords(TEXTS, 60, "bpe")
    subwords.write(tmp_path)
    again = Subwords.read(str(tmp_path))
    np.testing.assert_array_equal(again.encode(TEXTS)[0], subwords.encode(TEXTS)[0])


def test_what_is_no_model_is_said(tmp_path):
    with pytest.raises(UserError, match="x.model"):
        (tmp_path / "x.model").write_bytes(b"no model")
        Subwords.read(str(tmp_path / "x.model"))
    with pytest.raises(UserError, match="Cannot read nowhere: No such file"):
        Subwords.read("nowhere")
    with pytest.raises(UserError, match="bpe, unigram"):
        train_subwords(TEXTS, 60, "words")
    with pytest.raises(UserError, match="vocab_size=5"):
        train_subwords(TEXTS, 5)
