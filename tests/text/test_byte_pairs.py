"""Byte pairs: the ids of openai/gpt-2, and text that comes back byte for byte."""

import json
import pathlib
import unittest.mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel

from keras_attn.data.sources import documents
from keras_attn.errors import UserError
from keras_attn.text.byte_pairs import END_OF_TEXT, BytePairTokenizer, train_byte_pairs

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "byte_pairs.json"
TEXTS = [
    "low lower lowest, newer newest",
    "the low road\tand  the high road\n",
    "naïve 🙂 ﬁ",
    END_OF_TEXT,
    "",
    " leading",
    "it's we'll they're",
    "1234567 3.14",
]


@pytest.fixture(scope="module")
def tokenizer():
    return train_byte_pairs(TEXTS * 3, 300)


def rows_of(tokenizer, texts):
    ids, ends = tokenizer.encode(texts)
    return np.split(ids, ends[:-1])


def test_text_comes_back_byte_for_byte(tokenizer):
    assert tokenizer.decode(rows_of(tokenizer, TEXTS)) == TEXTS
    assert tokenizer.vocabulary[-1] == END_OF_TEXT and tokenizer.vocabulary_size == 300
    assert max(map(max, (r for r in rows_of(tokenizer, TEXTS) if len(r)))) < tokenizer.end_id


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text_comes_back(text):
    tokenizer = BytePairTokenizer([*_bytes(), END_OF_TEXT], [])
    (row,) = rows_of(tokenizer, [text])
    assert len(row) == len(text.encode())  # nothing is joined
    assert tokenizer.to_bytes(row) == text.encode()
    assert b"".join(tokenizer.to_bytes([one]) for one in row) == text.encode()
    assert tokenizer.decode([row]) == [text]


def test_the_pair_that_is_first_is_joined_first():
    pieces = [*_bytes(), "ab", "bc", "abc", END_OF_TEXT]
    first = {"ab": ["ab", "c"], "bc": ["a", "bc"]}
    for pairs in ([("a", "b"), ("b", "c")], [("b", "c"), ("a", "b")]):
        tokenizer = BytePairTokenizer(pieces, pairs)
        (row,) = rows_of(tokenizer, ["abc"])
        assert [pieces[i] for i in row] == first["".join(pairs[0])]


def test_ids_are_those_of_openai_and_give_the_text_back():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    pieces = golden["pieces"]  # a part of the vocabulary, with the ids of the whole
    tokenizer = BytePairTokenizer(pieces, [pair.split(" ") for pair in golden["merges"]])
    texts, wanted = zip(*golden["texts"], *golden["words"], strict=True)
    rows, ids = rows_of(tokenizer, list(texts)), np.array([*pieces.values()])
    assert len(texts) > 3000 and [ids[row].tolist() for row in rows] == list(wanted)
    assert tokenizer.decode(rows) == list(texts)


def test_what_it_writes_it_reads_and_so_do_files_of_openai(tokenizer, tmp_path):
    tokenizer.write(tmp_path)
    again = BytePairTokenizer.read(tmp_path)
    assert again.sha256 == tokenizer.sha256 and again.vocabulary == tokenizer.vocabulary
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "vocab.json").rename(theirs / "encoder.json")
    (theirs / "vocab.bpe").write_bytes((tmp_path / "merges.txt").read_bytes())
    assert BytePairTokenizer.read(theirs).sha256 == tokenizer.sha256
    with pytest.raises(UserError, match=r"vocab\.json and merges\.txt"):
        BytePairTokenizer.read(tmp_path)


@pytest.mark.parametrize(
    ("vocabulary", "merges", "message"),
    [
        ("[1, 2]", "", "must be a JSON object"),
        ("{", "", "must be JSON"),
        ('{"a": "x"}', "", "object that maps tokens to the ids"),
        ('{"a": 0, "b": 7}', "", "to the ids 0, 1, 2"),
        (None, "a b c\n", "must hold two tokens"),
        (None, "a zzz\n", "with no 'zzz'"),
        ('{"a": 0}', "", "all bytes"),
    ],
)
def test_files_of_something_else_are_errors(tmp_path, vocabulary, merges, message):
    ids = {piece: number for number, piece in enumerate([*_bytes(), END_OF_TEXT])}
    (tmp_path / "vocab.json").write_text(vocabulary or json.dumps(ids), encoding="utf-8")
    (tmp_path / "merges.txt").write_text(merges)
    with pytest.raises(UserError, match=message):
        BytePairTokenizer.read(tmp_path)


def test_training_twice_gives_the_same_pieces(tokenizer):
    assert train_byte_pairs(TEXTS * 3, 300).sha256 == tokenizer.sha256
    with pytest.raises(UserError, match="vocab_size must be at least 257"):
        train_byte_pairs(TEXTS, 256)


def _bytes():
    """What GPT-2 writes for the bytes: printable ones as they are, others from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [*map(chr, printable), *(chr(256 + n) for n in range(len(others)))]


@settings(max_examples=500, deadline=None)
@given(st.text(st.sampled_from("ab1 \t\n\r.'\u3000。\x1c\x85\u2028\u200b"), max_size=30))
def test_no_pair_goes_across_the_parts_of_a_text(text):
    def words(text):
        return [word for word, _ in ByteLevel(add_prefix_space=False).pre_tokenize_str(text)]

    for longest in (3, 10_000):
        with unittest.mock.patch.object(documents, "_PART_CHARACTERS", longest):
            parts = documents.document_of(text, verbatim=True)
        assert "".join(parts) == text * bool(text.strip())
        assert [word for part in parts for word in words(part)] == words("".join(parts))


def test_rows_without_a_subword_are_counted_and_left_out():
    pieces = [*_bytes(), "[row 256]", END_OF_TEXT, "[PAD]", "[row 259]", "[row 260]"]
    tokenizer = BytePairTokenizer(pieces, [])
    assert tokenizer.num_padding_rows == 2
    assert BytePairTokenizer(pieces[:-2], []).num_padding_rows == 0
    assert tokenizer.without_padding_rows().vocabulary == pieces[:-2]
    assert tokenizer.without_padding_rows().added_tokens == ["[PAD]"]


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_merges_with_other_line_ends_are_the_same(tokenizer, tmp_path, end):
    tokenizer.write(tmp_path)
    path = tmp_path / "merges.txt"
    path.write_bytes(path.read_bytes().replace(b"\n", end.encode()))
    assert BytePairTokenizer.read(tmp_path).merges == tokenizer.merges


@pytest.mark.parametrize("kept", [0, 1, 0.5, -1])
def test_merges_that_are_cut_are_refused(tokenizer, tmp_path, kept):
    tokenizer.write(tmp_path)
    path = tmp_path / "merges.txt"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: int(kept * len(lines)) if 0 < kept < 1 else kept]))
    with pytest.raises(UserError, match="merges.txt is incomplete or belongs to another model: no"):
        BytePairTokenizer.read(tmp_path)


def test_added_tokens_need_no_merge(tmp_path):
    pieces = ["<pad>", "[PAD]", *_bytes(), "ab", END_OF_TEXT, "added_tokens", "<x>"]
    for order in (
        pieces,
        [END_OF_TEXT, *(piece for piece in pieces if piece not in (END_OF_TEXT, "added_tokens"))],
    ):
        BytePairTokenizer(order, [("a", "b")]).write(tmp_path)
        assert BytePairTokenizer.read(tmp_path).vocabulary == order
