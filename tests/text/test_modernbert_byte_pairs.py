"""ModernBERT's tokenizer as a graph: the ids of the `tokenizers` library, or an error."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.text.modernbert_byte_pairs import ModernBertTokenizer

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
CONTENT = (GOLDEN / "modernbert" / "encoder" / "tokenizer.json").read_text()
# Added tokens as in the released tokenizer; the longest of those that begin at one place is taken,
# and those in other forms of Unicode are found in normalized text.
ADDED = ["|||IP_ADDRESS|||", "[unused0]", "[unused01]", "é\u0301!", " " * 24, "\t\t", "used"]
PARTS = [
    *("a", "1", " ", "  ", "   ", "\n", "\t", "\xa0", "!", "'s", " quick", "日", "👍🏽", "\0", "é"),
    *("e", "\u0301", "\u0327", "\u1100", "\u1161", "\u212b", "[MASK]", "[CLS]", "|||", *ADDED),
]


def with_tokens(*tokens, **fields):
    """The tokenizer with more added tokens and other fields of tokenizer.json."""
    content = {**json.loads(CONTENT), **fields}
    number = 1 + max(token["id"] for token in content["added_tokens"])
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    content["added_tokens"] += [
        {"id": number + place, **flags, "normalized": True, **token}
        for place, token in enumerate(tokens)
    ]
    return ModernBertTokenizer(json.dumps(content))


@pytest.mark.parametrize(
    "form", ["NFC", *(pytest.param(form, marks=pytest.mark.thorough) for form in ("NFKD", None))]
)
def test_a_graph_tokenizes_as_the_library(form, tmp_path):
    normalizer = form and {"type": form}
    tokenizer = with_tokens(*({"content": text} for text in ADDED), normalizer=normalizer)
    draw = np.random.default_rng(0)
    texts = [
        *(
            text
            for text, *_ in json.loads((GOLDEN / "encoders/tokenized.json").read_text())["texts"]
        ),
        *("".join(draw.choice(PARTS, draw.integers(14))) for _ in range(400)),
    ]
    texts = [text for text in texts if "\U0010fffe" not in text]  # which stands for NUL
    assert len(texts) == 688
    graph = tokenizer.in_graph()
    signature = [tf.TensorSpec([None], tf.string)]
    graph.run = tf.function(lambda x: graph(x), input_signature=signature)
    tf.saved_model.save(graph, str(tmp_path))
    run = tf.saved_model.load(str(tmp_path)).run
    found = run(tf.constant([text.encode() for text in texts]))
    ids, ends = tokenizer.encode(texts)
    np.testing.assert_array_equal(found.values, ids)
    np.testing.assert_array_equal(found.row_splits[1:], ends)
    assert run(tf.constant([], tf.string)).shape[0] == 0
    assert set(range(tokenizer.vocabulary_size - len(ADDED), tokenizer.vocabulary_size)) <= {*ids}


@pytest.mark.parametrize(
    "token, fields, received",
    [
        ({"lstrip": True}, {}, "lstrip of the added token '<x>'"),
        ({"rstrip": True, "single_word": True}, {}, "single_word, rstrip of the added token"),
        ({"normalized": False}, {}, "normalized=False of the added token '<x>'"),
        ({"special": True}, {}, "normalized=True of the added token '<x>'"),
        ({}, {"normalizer": {"type": "Lowercase"}}, "normalizer.type='Lowercase'"),
        ({}, {"model": {"ignore_merges": True}}, "model.ignore_merges=True"),
        ({}, {"pre_tokenizer": {"use_regex": False}}, "pre_tokenizer.use_regex=False"),
    ],
)
def test_a_tokenizer_whose_ids_would_differ_is_an_error(token, fields, received):
    content = json.loads(CONTENT)
    fields = {name: {**content[name], **change} for name, change in fields.items()}
    tokenizer = with_tokens({"content": "<x>", **token}, **fields)
    with pytest.raises(UserError, match=f"does not run inside a SavedModel.*Received: {received}"):
        tokenizer.in_graph()


def test_special_tokens_may_strip_spaces_because_they_are_ordinary_text():
    tokenizer = with_tokens(
        {"content": "<x>", "lstrip": True, "special": True, "normalized": False}
    )
    ids = tokenizer.in_graph()(tf.constant(["a  <x> b"])).values
    assert ids.numpy().tolist() == tokenizer.encode(["a  <x> b"])[0].tolist()
    assert tokenizer.ids["<x>"] not in ids
