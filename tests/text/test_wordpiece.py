import random
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text

from keras_attn.errors import UserError
from keras_attn.text.wordpiece import WordPieceTokenizer
from tests.support.quick import quick

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = """
    the The un ##aff ##able ##ing ##s run ##ning hello world ss mask straße strasse i of 的 人
    café cafe ##é ##ё ё ##̈ σ ς ##σ ##ς α ##α Σ ##Σ
"""
LETTERS = [chr(code) for code in range(33, 127)] + list("äöüßÉéñçàСс日本語한글ไทย…—“”€😀ﬁ①")
VOCABULARY = list(
    dict.fromkeys(SPECIALS + LETTERS + [f"##{letter}" for letter in LETTERS] + PIECES.split())
)

CJK = [
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
]

# Before 2.21, tensorflow-text takes the punctuation of Unicode 13 and 14 for letters.
NEWER = "\u061d\u1b7d\u1b7e\U00010ead\U0001145a\U000116b9\U00012ff1\U00012ff2" + "".join(
    chr(code)
    for first, end in ((0x2E52, 0x2E5E), (0x10F86, 0x10F8A), (0x11944, 0x11947))
    for code in range(first, end)
)
UNKNOWN = NEWER if tensorflow_text.__version__ < "2.21" else ""


def _is_punctuation(character):
    symbol = character.isascii() and character.isprintable() and not character.isalnum()
    return (symbol and character != " ") or unicodedata.category(character).startswith("P")


def _words(text, lowercase):
    """The basic tokenizer of BERT, in the order in which google-research/bert does its steps."""
    spaced = ""
    for character in text:
        category = unicodedata.category(character)
        if character in "\t\n\r " or category == "Zs":
            spaced += " "
        elif character in "\0\ufffd" or category in ("Cc", "Cf"):
            continue
        elif any(first <= ord(character) <= last for first, last in CJK):
            spaced += f" {character} "
        else:
            spaced += character
    words = []
    for token in spaced.split():
        if lowercase:
            decomposed = unicodedata.normalize("NFD", token.lower())
            token = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        words += "".join(f" {c} " if _is_punctuation(c) else c for c in token).split()
    return words


def _reference(text, lowercase, ids):
    """Longest match first, by the rule."""
    found = []
    for word in _words(text, lowercase):
        pieces, start = [], 0
        while start < len(word) <= 200:
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in ids), None)
            if end is None:
                break
            pieces.append(ids[prefix + word[start:end]])
            start = end
        found += pieces if start == len(word) else [ids["[UNK]"]]
    return found


def _random_texts(alphabet, count, seed):
    rng = random.Random(seed)
    extras = ["the", "unaffable", "running", "##ing", "[UNK]", "x" * 201, "é" * 200, "的" * 3]
    for number in range(count):
        if number % 4 == 0:
            yield "".join(rng.choices(alphabet, k=rng.randrange(40)))
        elif number % 4 == 1:
            yield "".join(rng.choices(alphabet[:700] + [" "] * 100, k=rng.randrange(60)))
        elif number % 4 == 2:
            parts = rng.choices(extras + alphabet[:200], k=rng.randrange(12))
            yield rng.choice(["", " ", "\t", "-"]).join(parts)
        else:
            yield rng.choice("aéß的.") * rng.randrange(195, 206) + rng.choice(alphabet)


@pytest.mark.thorough
@pytest.mark.parametrize("lowercase", [True, False])
def test_any_text_of_any_plane_gets_the_ids_of_the_published_algorithm(lowercase):
    characters = map(chr, (*range(0xD800), *range(0xE000, 0x110000)))
    # What Unicode has not assigned yet depends on the version of Unicode, not on BERT.
    alphabet = [c for c in characters if unicodedata.category(c) != "Cn" and c not in UNKNOWN]
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase)
    texts = [
        *_random_texts(alphabet, 4000, seed=1),
        *(f"ab{c}cd" for c in alphabet[::7]),
        *(f"ab{c}cd {c} {c}{c}e" for c in "\u2028\u2029\x85\x1c\u3000\xa0"),
    ]
    found = tokenizer(texts).to_list()
    wrong = [
        (text, ids)
        for text, ids in zip(texts, found, strict=True)
        if ids != _reference(text, lowercase, tokenizer.ids)
    ]
    assert not wrong


@pytest.mark.parametrize("lowercase", quick([True, False], False))
def test_texts_get_the_ids_of_hugging_face_tokenizers(lowercase):
    from tokenizers import BertWordPieceTokenizer
    from tokenizers.models import WordPiece

    old = unicodedata.ucd_3_2_0
    # Theirs has an old table of categories, drops private use, and lower-cases Σ without its
    # context; google-research/bert does none of it, and neither do we.
    alphabet = [
        character
        for character in map(chr, range(0x30000))
        if old.category(character) not in ("Cn", "Co", "Cs")
        and old.category(character) == unicodedata.category(character)
        and character != "Σ"
    ]
    alphabet += [chr(code) for code in (*range(0x1F300, 0x1F5FF), *range(0x1F600, 0x1F64F))]
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase)
    theirs = BertWordPieceTokenizer(tokenizer.ids, lowercase=lowercase, strip_accents=lowercase)
    theirs._tokenizer.model = WordPiece(
        tokenizer.ids, unk_token="[UNK]", max_input_chars_per_word=200
    )
    # They take special tokens in text for these tokens.
    texts = [
        text
        for text in _random_texts(alphabet, 6000, seed=2)
        if not any(special in text for special in SPECIALS)
    ]
    wanted = theirs._tokenizer.encode_batch(texts, add_special_tokens=False)
    assert tokenizer(texts).to_list() == [encoding.ids for encoding in wanted]


def test_special_tokens_in_text_are_plain_characters():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    ids = tokenizer(["[MASK] [unk]"]).to_list()[0]
    assert [tokenizer.vocabulary[number] for number in ids] == (
        ["[", "mask", "]", "[", "un", "##k", "]"]
    )


def test_a_last_sigma_is_lowered_as_python_does():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    ids = tokenizer(["ΑΣ ΣΑ"]).to_list()[0]
    assert [tokenizer.vocabulary[number] for number in ids] == ["α", "##ς", "σ", "##α"]


def test_a_word_of_200_characters_is_cut_and_one_of_201_is_unknown():
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=False)
    for letter in "aé😀":
        fits, long = tokenizer([letter * 200, f"a {letter * 201}.a"]).to_list()
        assert len(fits) == 200 and tokenizer.unk_id not in fits
        a = tokenizer.ids["a"]
        assert long == [a, tokenizer.unk_id, tokenizer.ids["."], a]


def test_encode_gives_the_same_ids_flat_with_any_number_of_threads():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    texts = ["Hello, world!", "", "running", "\x00 ", "unaffable é"]
    rows = tokenizer(texts).to_list()
    for threads in (1, 2, 3, 9):
        ids, ends = tokenizer.encode(texts, threads)
        assert ids.dtype == np.int32 and ends.dtype == np.int64
        starts = [0, *ends[:-1]]
        assert [ids[a:b].tolist() for a, b in zip(starts, ends, strict=True)] == rows
    ids, ends = tokenizer.encode([])
    assert ids.shape == ends.shape == (0,)


def test_text_that_is_no_unicode_loses_what_is_wrong_only():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    hello = tokenizer(["hello"]).to_list()
    assert tokenizer(["hel\ud83dlo"]).to_list() == hello
    assert tokenizer([]).to_list() == []


def test_it_works_inside_tf_data_and_a_tf_function():
    tokenizer = WordPieceTokenizer(VOCABULARY)
    texts = ["Hello, world!", "Éa" + "b" * 300, "x"]
    eager = tokenizer(texts).to_list()
    assert tf.function(tokenizer)(tf.constant(texts)).to_list() == eager
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(2).map(tokenizer)
    assert [row for batch in dataset for row in batch.to_list()] == eager


def test_its_attributes_describe_the_vocabulary():
    tokenizer = WordPieceTokenizer(["##", "[SEP]", "[CLS]", "a", "[PAD]", "##b", "[MASK]", "[UNK]"])
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id) == (4, 7, 2)
    assert (tokenizer.sep_id, tokenizer.mask_id, tokenizer.vocabulary_size) == (1, 6, 8)
    assert tokenizer.special_ids.tolist() == [1, 2, 4, 6, 7]
    assert tokenizer.special_ids.dtype == np.int32
    assert np.flatnonzero(tokenizer.continuation).tolist() == [5]
    assert tokenizer.vocabulary[tokenizer.mask_id] == tokenizer.mask_token
    assert [tokenizer.surface(piece) for piece in ("##b", "a", "##", "[UNK]")] == [
        "b",
        "a",
        "",
        "[UNK]",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "hello, world! (the café)",
        'he said: "the cafe", no?',
        "don't re-run 3.14 or $5",
        "a [UNK] b",
    ],
)
def test_detokenized_text_reads_as_the_original(text):
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=False)
    ids = [
        tokenizer.unk_id if word == "[UNK]" else number
        for word in text.split()
        for number in tokenizer([word]).to_list()[0][: 1 if word == "[UNK]" else None]
    ]
    padded = [tokenizer.cls_id, *ids, tokenizer.sep_id, tokenizer.pad_id]
    assert tokenizer.detokenize(padded) == text


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ([*SPECIALS, "a", "b", "a"], "lines 6 and 8"),
        ([*SPECIALS, "a", " "], "line 7"),
        (["[PAD]", "[UNK]", "[CLS]", "a"], r"lacks \[SEP\] \[MASK\]"),
    ],
)
def test_a_vocabulary_that_cannot_be_one_is_refused(vocabulary, message):
    with pytest.raises(UserError, match=message):
        WordPieceTokenizer(vocabulary)
