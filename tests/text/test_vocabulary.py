import hashlib
import subprocess
import sys

import pytest

from keras_attn.errors import UserError
from keras_attn.text import vocabulary
from keras_attn.text.vocabulary import (
    SPECIAL_TOKENS,
    read_vocabulary,
    train_vocabulary,
    write_vocabulary,
)
from keras_attn.text.wordpiece import WordPieceTokenizer

WORDS = "low lower lowest new newer newest wide wider widest the of and Überall naïve"
TEXTS = [f"{a} {b}, {c}." for a in WORDS.split() for b in WORDS.split() for c in ("Low", "été")]


def test_a_vocabulary_file_reads_back_and_its_hash_is_the_tokenizers(tmp_path):
    path = str(tmp_path / "vocab.txt")
    # U+2028 and U+0085 end lines for str.splitlines, and both are in multilingual vocabularies.
    vocabulary = [
        *SPECIAL_TOKENS,
        "a",
        "##é",
        "\u2028x",
        "y\x85",
        "的",
        "\u2028",
        "##\u2028",
        "\u3000",
        "\x85",
    ]
    write_vocabulary(path, vocabulary)
    assert read_vocabulary(path) == vocabulary
    with open(path, "rb") as file:
        content = file.read()
    tokenizer = WordPieceTokenizer.from_file(path)
    assert tokenizer.sha256 == hashlib.sha256(content).hexdigest()
    with open(path, "wb") as file:
        file.write(content[:-1].replace(b"\n", b"\r\n"))
    assert read_vocabulary(path) == vocabulary


def test_a_vocabulary_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    with pytest.raises(UserError, match="Cannot write .*vocab.txt: "):
        write_vocabulary(str(tmp_path / "missing" / "vocab.txt"), SPECIAL_TOKENS)
    (tmp_path / "vocab.txt").mkdir()  # cannot be renamed over
    with pytest.raises(UserError, match="Cannot write .*vocab.txt: "):
        write_vocabulary(str(tmp_path / "vocab.txt"), SPECIAL_TOKENS)
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "Cannot read .*: No such file"),
        (b"[PAD]\n[UNK]\n\xff\n", "UTF-8.*line 3"),
        (b"[PAD]\n[UNK]\n\n[CLS]\n[SEP]\n[MASK]\n", "line 3 is empty"),
        (b"[PAD]\n[UNK]\n[CLS]\n[CLS]\n", "lines 3 and 4"),
        (b"a\0b\n", "line 1 contains a NUL character"),
        (b"[PAD]\n##" + b"a" * 256 + b"\n" + "é".encode() * 129, "line 3 has 258 bytes"),
        (b"a\nb\n", "lacks"),
        (b"", "lacks"),
    ],
)
def test_a_damaged_file_is_refused_by_name_and_line(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        read_vocabulary(str(path))
    assert str(path) in str(error.value)


@pytest.mark.thorough
def test_training_is_the_same_in_any_process_and_for_any_order_of_texts():
    # The trainer of `tokenizers` hashes with a seed of each process.
    code = (
        "from tests.text.test_vocabulary import TEXTS, train_vocabulary\n"
        "print(ascii([train_vocabulary(TEXTS[::step], 120) for step in (1, -1)]))"
    )
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    here = train_vocabulary(TEXTS, 120)
    assert printed == ascii([here, here]) + "\n"


@pytest.mark.parametrize("lowercase", [True, False])
def test_a_trained_vocabulary_begins_as_berts_and_tokenizes_its_texts_without_unknowns(lowercase):
    vocabulary = train_vocabulary(TEXTS, 300, lowercase=lowercase)
    assert vocabulary[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(set(vocabulary)) == len(vocabulary) <= 300
    assert "lowest" in vocabulary and "##." not in vocabulary
    tokenizer = WordPieceTokenizer(vocabulary, lowercase)
    ids, ends = tokenizer.encode(TEXTS)
    assert tokenizer.unk_id not in ids
    assert tokenizer.detokenize(ids[: ends[0]]) == (
        "low low, low." if lowercase else "low low, Low."
    )


def test_the_rarest_characters_are_left_out_of_a_small_vocabulary():
    common = ["abcdefgh " * 50]
    rare = [chr(0x4E00 + number) for number in range(500)]
    vocabulary = train_vocabulary(common + rare, 160)
    assert len(vocabulary) <= 160 and set("abcdefgh") <= set(vocabulary)
    assert sum(len(piece) == 1 for piece in vocabulary) == 160 // 8


def test_training_on_no_words_or_for_too_few_pieces_is_refused():
    with pytest.raises(UserError, match="no words"):
        train_vocabulary(["", " \n"], 100)
    with pytest.raises(UserError, match="size=10"):
        train_vocabulary(TEXTS, 10)


def test_a_piece_of_256_bytes_is_taken_and_longer_ones_are_not_trained(monkeypatch):
    longest = "##" + "é" * 128
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, "é", longest], lowercase=False)
    assert tokenizer(["é" * 129]).to_list() == [[5, 6]]
    monkeypatch.setattr(vocabulary, "MAX_TOKEN_BYTES", 4)
    pieces = train_vocabulary(["abcdefgh abcdefgh"] * 9, 200)
    assert "abcd" in pieces and max(len(piece.removeprefix("##")) for piece in pieces[5:]) == 4
