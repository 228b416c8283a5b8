"""RoBERTa's tokenizer: ids and spans of `transformers`, rows, vocabulary."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.text_examples import TextExamples
from keras_attn.errors import UserError
from keras_attn.text.roberta_byte_pairs import (
    SPECIAL_TOKENS,
    RobertaTokenizer,
    train_roberta_byte_pairs,
)
from keras_attn.text.tokenizer_types import make_tokenizer

ENCODERS = pathlib.Path(__file__).parents[1] / "golden" / "encoders"
EXPECTED = json.loads((ENCODERS / "tokenized.json").read_text())
TEXTS = [text for text, _, _ in EXPECTED["texts"]]


@pytest.fixture(scope="module")
def tokenizer():
    model = json.loads((ENCODERS / "roberta_encoder" / "tokenizer.json").read_text())["model"]
    vocabulary = sorted(model["vocab"], key=model["vocab"].get)
    return RobertaTokenizer(vocabulary, model["merges"])


def test_ids_and_spans_equal_those_of_transformers(tokenizer):
    ids, ends, spans = tokenizer.encode_with_spans(TEXTS)
    np.testing.assert_array_equal(tokenizer.encode(TEXTS)[0], ids)
    np.testing.assert_array_equal(tokenizer.encode(TEXTS)[1], ends)
    for number, (text, theirs, offsets) in enumerate(EXPECTED["texts"]):
        own = slice(ends[number - 1] if number else 0, ends[number])
        assert ids[own].tolist() == theirs, text
        assert spans[own].tolist() == offsets, text
    assert len(TEXTS) == 289


def _row(tokenizer, text, pair=None, length=99):
    pairs = None if pair is None else [pair]
    examples = TextExamples(
        [text], pairs, None, tokenizer, length=length, batch_size=1, shuffle=False
    )
    batch = examples.batch(0)
    return batch["token_ids"][batch["padding_mask"] > 0].tolist()


def test_rows_of_texts_and_pairs_equal_those_of_transformers(tokenizer):
    for text, pair, ids in EXPECTED["pairs"]:
        assert _row(tokenizer, text, pair) == ids, (text, pair)
    for text, ids in EXPECTED["truncated"]:
        assert len(ids) <= 9 and _row(tokenizer, text, length=9) == ids, text


def test_a_graph_tokenizes_as_the_library(tokenizer):
    texts = [text for text in TEXTS if "\U0010fffe" not in text]  # which stands for NUL
    graph = tokenizer.in_graph()
    run = tf.function(lambda x: graph(x), input_signature=[tf.TensorSpec([None], tf.string)])
    found = run(tf.constant([text.encode() for text in texts]))
    ids, ends = tokenizer.encode(texts)
    np.testing.assert_array_equal(found.values, ids)
    np.testing.assert_array_equal(found.row_splits[1:], ends)
    assert run(tf.constant([], tf.string)).shape[0] == 0
    bytes_only = RobertaTokenizer([*tokenizer.vocabulary], [])
    found = bytes_only.in_graph()(tf.constant(["the cat"]))
    assert found.to_list() == [bytes_only.encode(["the cat"])[0].tolist()]


def test_texts_are_restored_from_their_ids(tokenizer):
    ids, ends = tokenizer.encode(TEXTS)
    assert tokenizer.decode(np.split(ids, ends[:-1])) == TEXTS


def test_tokens_have_all_characters_of_a_text_except_the_spaces_before_words(tokenizer):
    ids, _ = tokenizer.encode(TEXTS)
    lengths = [len(tokenizer.surface(tokenizer.vocabulary[number])) for number in ids]
    assert sum(lengths) == sum(len(text) - text.count(" ") for text in TEXTS)


def test_special_tokens_are_those_of_the_released_vocabulary(tokenizer):
    size = tokenizer.vocabulary_size
    found = tokenizer.cls_id, tokenizer.pad_id, tokenizer.sep_id, tokenizer.unk_id
    assert found == (0, 1, 2, 3) and tokenizer.mask_id == size - 1
    padded = RobertaTokenizer([*tokenizer.vocabulary, f"[row {size}]"], tokenizer.merges)
    assert padded.special_ids.tolist() == [0, 1, 2, 3, size - 1, size]
    assert padded.without_padding_rows().vocabulary == tokenizer.vocabulary
    (mask, *_), _ = tokenizer.encode(["<mask>"])
    assert mask != tokenizer.mask_id


def test_a_token_without_a_space_continues_a_word(tokenizer):
    ids, _ = tokenizer.encode(["the cat's mat."])
    pieces = [tokenizer.vocabulary[number] for number in ids]
    expected = [not piece.startswith("Ġ") for piece in pieces]
    assert tokenizer.continuation[ids].tolist() == expected and not all(expected)
    assert not tokenizer.continuation[tokenizer.special_ids].any()


def test_a_trained_vocabulary_is_read_again_and_made_from_its_recipe(tmp_path):
    texts = ["The cat sat on the mat.", "the rat sat on the hat"] * 3
    trained = train_roberta_byte_pairs(texts, 275)
    assert trained.vocabulary[:4] + trained.vocabulary[-1:] == list(SPECIAL_TOKENS)
    assert trained.vocabulary_size == 275
    trained.write(tmp_path)
    for other in (RobertaTokenizer.read(tmp_path), make_tokenizer(trained.recipe)):
        assert (other.vocabulary, other.merges) == (trained.vocabulary, trained.merges)
        assert other.sha256 == trained.sha256
    with pytest.raises(
        UserError, match="at least 261 for BPE: all bytes and <s>, .*vocab_size=260"
    ):
        train_roberta_byte_pairs(texts, 260)


def test_a_vocabulary_without_a_special_token_is_an_error(tokenizer):
    with pytest.raises(UserError, match="must contain all bytes, <s>, .* with no '<mask>'"):
        RobertaTokenizer(tokenizer.vocabulary[:-1], tokenizer.merges)
