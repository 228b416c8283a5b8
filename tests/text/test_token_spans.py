"""Where in its text each token is, whatever the tokenizer drops or makes of a character."""

import random
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.text.wordpiece import WordPieceTokenizer
from tests.support.quick import quick

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "caf", "istanbul", "##stan"]
LETTERS = [chr(code) for code in range(33, 127)] + list("äöüßÉéñçàСс日本語한글ไทย…—“”€😀ﬁ①İαςσ的")
LETTERS += [chr(code) for code in range(0x1100, 0x1200)]  # what NFD makes of 한글
VOCABULARY = list(dict.fromkeys(PIECES + LETTERS + [f"##{letter}" for letter in LETTERS]))
TOKENIZERS = {lowercase: WordPieceTokenizer(VOCABULARY, lowercase) for lowercase in (True, False)}
# Of what is newer the versions of Unicode in Python and in TensorFlow may think differently.
KNOWN = [
    c
    for c in map(chr, range(0x110000))
    if unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c) not in ("Cn", "Cs")
]
ANY = st.text(st.sampled_from(KNOWN))
HARD = st.lists(
    st.sampled_from(
        [
            *"aÉé \t\n\r.-'İßΣ的한😀👩",
            "e\u0301\u0302",
            "\u200d",
            "\ufe0f",
            "\u00ad",
            "\x00",
            "\x07",
            "\ufffd",
            "the",
            "[MASK]",
            "x" * 201,
            "é" * 201,
            "e\u0301" * 200,
            "的" * 201,
            "\u3000",
            "\U000e0020",
            "\u0903",
            "\ud800",
        ]
    ),
    max_size=12,
).map("".join)


def _tokens(text, lowercase):
    """Pieces and spans of a text."""
    tokenizer = TOKENIZERS[lowercase]
    ids, ends, spans = tokenizer.encode_with_spans(["", text, "the"])
    known, known_ends = tokenizer.encode(["", text, "the"])
    np.testing.assert_array_equal(ids, known)
    np.testing.assert_array_equal(ends, known_ends)
    return [
        (tokenizer.vocabulary[number], (int(start), int(end)))
        for number, (start, end) in zip(ids[: ends[1]], spans[: ends[1]], strict=True)
    ]


def _folded(text, lowercase):
    """BERT's folding, in the words of Python."""
    kept = "".join(
        c
        for c in text
        if c in "\t\n\r" or c != "\ufffd" and unicodedata.category(c) not in ("Cc", "Cf", "Cs")
    )
    if not lowercase:
        return kept
    plain = unicodedata.normalize("NFD", kept.lower())
    return "".join(c for c in plain if unicodedata.category(c) != "Mn").replace("ς", "σ")


@pytest.mark.parametrize("lowercase", quick([True, False], True))
@settings(max_examples=30, deadline=None)
@given(text=st.one_of(ANY, HARD))
def test_spans_hold_their_tokens_in_order_and_leave_out_only_what_is_dropped(lowercase, text):
    tokens = _tokens(text, lowercase)
    last_start, end, left = 0, 0, ""
    for piece, (start, stop) in tokens:
        assert last_start <= start < stop <= len(text) and end <= max(start + 1, stop)
        left += text[end:start]
        own = _folded(text[start:stop], lowercase)
        piece = piece.removeprefix("##") if piece != "##" else piece
        if piece != "[UNK]":
            # Of a syllable that NFD takes apart there may be several tokens.
            assert piece.replace("ς", "σ") in own
            syllable = any("\uac00" <= c <= "\ud7a3" for c in text[start:stop])
            assert syllable or len(own) == len(piece)
        last_start, end = start, max(end, stop)
    left += text[end:]
    assert not _folded(left, lowercase).split()


def test_spans_of_texts_that_folding_changes_are_known():
    cases = {
        "İstanbul": [("istanbul", "İstanbul")],
        "caf\u00e9 cafe\u0301!": [
            ("caf", "caf"),
            ("##e", "é"),
            ("caf", "caf"),
            ("##e", "e\u0301"),
            ("!", "!"),
        ],
        "\tthe\u00ad\x00the ": [("the", "the"), ("##t", "t"), ("##h", "h"), ("##e", "e")],
        "的的a": [("的", "的"), ("的", "的"), ("a", "a")],
        "ΑΣ": [("α", "Α"), ("##ς", "Σ")],
        "a😀👩\u200d🚀 b": [("[UNK]", "a😀👩\u200d🚀"), ("b", "b")],
        "가": [("\u1100", "가"), ("##\u1161", "가")],
        f"a {'y' * 201}-é": [("a", "a"), ("[UNK]", "y" * 201), ("-", "-"), ("e", "é")],
    }
    for text, wanted in cases.items():
        assert [(piece, text[start:end]) for piece, (start, end) in _tokens(text, True)] == wanted


@pytest.mark.parametrize("lowercase", [True, False])
def test_spans_equal_those_of_hugging_face_but_for_accents(lowercase):
    from tokenizers import BertWordPieceTokenizer

    # What theirs treats otherwise: see test_wordpiece.py.
    draw = random.Random(0)
    alphabet = [*map(chr, range(32, 127)), *"äöüßÉéñçàСс日本語ไทย…—“”€😀\u0301\u0302\u00ad\t"]
    texts = ["".join(draw.choices(alphabet, k=draw.randrange(60))) for _ in range(500)]
    texts = [text for text in texts if "[" not in text]
    tokenizer = TOKENIZERS[lowercase]
    theirs = BertWordPieceTokenizer(tokenizer.ids, lowercase=lowercase, strip_accents=lowercase)
    found = theirs._tokenizer.encode_batch(texts, add_special_tokens=False)
    ids, ends, spans = tokenizer.encode_with_spans(texts)
    for text, known, own, places in zip(
        texts, found, np.split(ids, ends[:-1]), np.split(spans, ends[:-1]), strict=True
    ):
        assert own.tolist() == known.ids
        for (start, end), (their_start, their_end) in zip(places, known.offsets, strict=True):
            assert start == their_start and end >= their_end
            assert all(unicodedata.category(c) == "Mn" for c in text[their_end:end])


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [True, False])
def test_every_character_is_folded_to_as_many_whatever_stands_around_it(lowercase):
    tokenizer = TOKENIZERS[lowercase]
    alphabet = [chr(code) for code in (*range(0xD800), *range(0xE000, 0x110000))]
    random.Random(0).shuffle(alphabet)
    texts = ["".join(alphabet[start : start + 50]) for start in range(0, len(alphabet), 50)]
    folded = tf.strings.length(tokenizer._normalized(tf.constant(texts)), unit="UTF8_CHAR").numpy()
    origins = [len(origin) for origin in tokenizer._origins(texts)]
    np.testing.assert_array_equal(origins, folded)


def test_no_texts_have_no_tokens():
    ids, ends, spans = TOKENIZERS[True].encode_with_spans([])
    assert (ids.shape, ends.shape, spans.shape) == ((0,), (0,), (0, 2))
