import gzip
import json
from collections import Counter

import pytest

from keras_attn.data.sources import documents, text_lines
from keras_attn.data.sources.documents import (
    Part,
    detect_format,
    read_documents,
    split_files,
)
from keras_attn.errors import UserError


def _read(path, format="lines", **options):
    return list(read_documents(Part(str(path)), format, **options))


def _write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le"])
def test_lines_are_sentences_and_empty_lines_part_documents(tmp_path, end, name, encoding):
    lines = ["", "One é. Still one.", "two", "", " \t", "three", "", ""]
    for last in ("four", ""):
        content = end.join([*lines, last]).encode(encoding)
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        found = _read(tmp_path / name, encoding=encoding.removesuffix("-sig"))
        assert found == [["One é. Still one.", "two"], ["three"], *[[last]] * bool(last)]


def test_old_line_ends_are_line_ends(tmp_path):
    assert _read(_write(tmp_path / "a", "one\rtwo\r\rthree\r")) == [["one", "two"], ["three"]]


def test_a_file_of_paragraphs_is_one_document_of_sentences(tmp_path):
    text = "CHAPTER I.\r\n\r\nIt rained. He left.\r\n“Why?” she said. “No.”\r\n"
    for encoding in ("utf-8", "utf-8-sig"):
        path = _write(tmp_path / "a", text, encoding)
        wanted = ["CHAPTER I.", "It rained.", "He left.", "“Why?” she said.", "“No.”"]
        assert _read(path, "paragraphs") == [wanted]


@pytest.mark.parametrize("between", ["\n", "\n\n"])
def test_broken_lines_are_joined_to_paragraphs(tmp_path, between):
    first = [
        "The quick brown fox jumps over the lazy dog and then it goes on",
        "to sleep. After a while it wakes up again, and looks around for",
        "something to eat. There is",
    ]
    second = [
        "Another day begins as the last one did, with the fox and the dog",
        "in the garden. They know each other well by now, which makes the",
        "rest easy.",
    ]
    pair = "\n".join(first) + between + "\n".join(second) + between
    path = _write(tmp_path / "a", "HEADING" + between + pair * 3)
    assert detect_format([str(path)])[0] == "paragraphs"
    (document,) = _read(path, "paragraphs")
    assert document[:5] == [
        "HEADING",
        "The quick brown fox jumps over the lazy dog and then it goes on to sleep.",
        "After a while it wakes up again, and looks around for something to eat.",
        "There is",
        "Another day begins as the last one did, with the fox and the dog in the garden.",
    ]


def test_the_field_of_a_json_record_is_a_document(tmp_path):
    records = [
        {"text": "It rained. He left.\nShe did not.", "body": ["One. Two.", "", "three"]},
        {"text": " \n", "body": []},
        {"text": "E\ud83dnd", "body": ["\ude00", "x"]},
    ]
    path = _write(tmp_path / "a.jsonl", "\n\n".join(json.dumps(record) for record in records))
    assert _read(path, "jsonl") == [["It rained.", "He left.", "She did not."], ["End"]]
    assert _read(path, "jsonl", field="body") == [["One. Two.", "three"], ["x"]]
    with pytest.raises(UserError, match=r"in its field 'title'.*a.jsonl, line 1, .*text, body$"):
        _read(path, "jsonl", field="title")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "utf-32-be"])
def test_a_record_that_cannot_be_read_is_named_or_counted(tmp_path, encoding):
    text = '{"text": "one"}\n\n{"text": \n[1]\n{"text": 3}\n{"text": "two"}'
    path = _write(tmp_path / "a", text, encoding)
    wanted = "must be a JSON object with text in its field 'text'.*line 3, which is not a JSON obj"
    with pytest.raises(UserError, match=wanted):
        _read(path, "jsonl", encoding=encoding)
    counts = Counter()
    options = {"encoding": encoding, "on_bad_text": "skip", "counts": counts}
    assert _read(path, "jsonl", **options) == [["one"], ["two"]]
    assert counts["lines_skipped"] == 3
    path = _write(tmp_path / "a", '{"text": "é"}\n' * 70 + '{"text": 3}\n', encoding)
    with pytest.raises(UserError, match="line 71, where that field is not text"):
        _read(path, "jsonl", encoding=encoding)


def test_a_record_nested_too_deeply_cannot_be_read(tmp_path):
    path = _write(tmp_path / "a", '{"text": "one"}\n{"text": ' + "[" * 100_000 + "\n")
    with pytest.raises(UserError, match="JSON object.*line 2, which is not a"):
        _read(path, "jsonl")
    assert _read(path, "jsonl", on_bad_text="skip") == [["one"]]


def test_a_book_in_a_record_is_one_document(tmp_path):
    wanted = [[f"word{number} " * 20 + "." for number in range(80_000)], ["short"]]
    text = "\n".join(json.dumps({"text": document}) for document in wanted)
    path = _write(tmp_path / "a.txt", text)
    assert len(text) > 2 * text_lines.SPLIT_LINE
    assert detect_format([str(path)])[0] == "jsonl"
    assert _read(path, "jsonl") == wanted


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_record_that_is_too_long_is_named_or_counted_once(tmp_path, monkeypatch, end, encoding):
    monkeypatch.setattr(text_lines, "SPLIT_LINE", 50)
    monkeypatch.setattr(text_lines, "_BLOCK", 16)
    sizes = [1, 400, 30, 286, 287, 7, 1000, 290]
    lines = [json.dumps({"text": "é" + "x" * size}, ensure_ascii=False) for size in sizes]
    short = [line for line in lines if len(line.encode()) <= 300]
    assert sorted(set(map(len, lines)) - set(map(len, short))) == [300, 303, 413, 1013]
    path = _write(tmp_path / "a", "\n".join(lines) + end, encoding)
    message = "must have at most 300 bytes.*on_bad_text=skip.*/a, line 2 .longer"
    with pytest.raises(UserError, match=message):
        _read(path, "jsonl", encoding=encoding, max_line=300)
    for part_bytes in (1, 20, 100, 10_000):
        monkeypatch.setattr(documents, "PART_BYTES", part_bytes)
        counts = Counter()
        options = {"encoding": encoding, "on_bad_text": "skip", "counts": counts}
        found = [
            document
            for part in split_files([str(path)], [path.stat().st_size], encoding)
            for document in read_documents(part, "jsonl", max_line=300, **options)
        ]
        assert found == [[json.loads(line)["text"]] for line in short]
        assert counts["lines_skipped"] == 4


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_in_another_encoding_is_named_or_counted(tmp_path, packed):
    content = b"one\r\n\r\ntwo\r\n\xe9t\xe9\r\nthree \xff"
    path = tmp_path / ("a.gz" if packed else "a")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(UserError, match=r"utf-8.*on_bad_text=skip.*line 4 \(invalid"):
        _read(path)
    counts = Counter()
    assert _read(path, on_bad_text="skip", counts=counts) == [["one"], ["two"]]
    assert counts["lines_skipped"] == 2
    assert _read(path, encoding="latin-1") == [["one"], ["two", "été", "three ÿ"]]


def test_a_damaged_utf_16_line_is_named(tmp_path):
    content = "one\ntwo\n".encode("utf-16-le") + b"\x00\xd8\n\x00three"
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(UserError, match="utf-16-le.*line 3"):
        _read(tmp_path / "a", encoding="utf-16-le")


@pytest.mark.parametrize("size", [0, 5, 40])
def test_a_truncated_or_false_gzip_file_is_an_error(tmp_path, size):
    content = gzip.compress(b"".join(b"%d\n" % number for number in range(1000)))
    (tmp_path / "a.gz").write_bytes(content[:-size] if size else b"plain text")
    with pytest.raises(UserError, match=r"a\.gz: the gzip file is truncated or damaged"):
        _read(tmp_path / "a.gz")


def test_gzip_files_one_after_the_other_are_one_text(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"o\n"))
    assert _read(tmp_path / "a.gz") == [["one", "two"]]


def test_an_unknown_encoding_or_format_is_refused(tmp_path):
    path = _write(tmp_path / "a", "one")
    for encoding in ("utf-9", "base64"):
        with pytest.raises(UserError, match=f"text encoding of Python.*{encoding}"):
            _read(path, encoding=encoding)
    with pytest.raises(UserError, match="lines, paragraphs, jsonl.*format=xml"):
        _read(path, "xml")


def _books():
    text = "the fox sees a dog and it runs on through the garden until evening"
    words = text.split()
    sentences = [
        " ".join(words[number % 7 :] + [str(number)]).capitalize() + "." for number in range(400)
    ]
    by_line = "\n".join(
        sentence + "\n" * (number % 9 == 0) for number, sentence in enumerate(sentences)
    )
    rows = [sentences[number : number + 4] for number in range(0, 400, 4)]
    paragraphs = [" ".join(row) if number % 3 else row[0] for number, row in enumerate(rows)]
    return {
        "lines": [by_line, by_line.lower().replace(".", " ."), "A short caption\n" * 50, "one"],
        "paragraphs": ["\n".join(paragraphs), "\n\n".join(paragraphs), " ".join(sentences)],
        "jsonl": ['{"text": "one"}\n{"text": "two"}\n'],
    }


@pytest.mark.parametrize("format", ["lines", "paragraphs", "jsonl"])
def test_the_format_is_found_out(tmp_path, format):
    for text in _books()[format]:
        path = _write(tmp_path / "a.txt", text)
        assert detect_format([str(path)])[0] == format
    assert detect_format([str(tmp_path / "b.jsonl.gz"), "c.ndjson"])[0] == "jsonl"


@pytest.mark.parametrize("format", ["lines", "jsonl"])
def test_the_parts_of_a_file_have_all_documents_once(tmp_path, monkeypatch, format):
    wanted = [[f"{'é' * (d % 7)}{d}.{s}" for s in range(d % 5 + 1)] for d in range(60)]
    if format == "lines":
        text = "\n" + "\n\n".join("\n".join(document) for document in wanted)
    else:
        text = "\n".join(json.dumps({"text": d}, ensure_ascii=False) for d in wanted)
    path = str(_write(tmp_path / "a", text))
    size = len(text.encode())
    for part_bytes in (1, 2, 3, 7, 10, 64, 500):
        monkeypatch.setattr(documents, "PART_BYTES", part_bytes)
        parts = split_files([path], [size], "utf-8")
        assert len(parts) == -(-size // part_bytes) > 1
        found = [document for part in parts for document in read_documents(part, format)]
        assert found == wanted


def test_the_parts_of_a_file_of_paragraphs_have_all_sentences_once(tmp_path, monkeypatch):
    wanted = [f"It is {number}." for number in range(300)]
    text = "\n".join(" ".join(wanted[n : n + 3]) for n in range(0, 300, 3))
    path = str(_write(tmp_path / "a", text))
    for part_bytes in (5, 50, 1000):
        monkeypatch.setattr(documents, "PART_BYTES", part_bytes)
        parts = split_files([path], [len(text)], "utf-8")
        found = [d for part in parts for d in read_documents(part, "paragraphs")]
        assert [sentence for document in found for sentence in document] == wanted


def test_files_that_cannot_be_cut_stay_whole():
    size = 3 * documents.PART_BYTES
    assert split_files(["a.gz", "b"], [size, 10], "utf-8") == [Part("a.gz"), Part("b")]
    assert split_files(["a"], [size], "utf-16") == [Part("a")]
    assert len(split_files(["a"], [size], "utf-8")) == 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_line_that_does_not_end_is_read_in_pieces(tmp_path, monkeypatch, encoding):
    monkeypatch.setattr(text_lines, "SPLIT_LINE", 50)
    monkeypatch.setattr(text_lines, "_BLOCK", 16)
    words = [f"wörd{number}" for number in range(200)]
    path = str(_write(tmp_path / "a", "first\n" + " ".join(words) + "\n" + "é" * 100, encoding))
    lines = list(text_lines.read_lines(path, encoding=encoding))
    assert lines[0] == (0, "first")
    assert "".join(text for position, text in lines if position == 6).split() == words
    assert "".join(text for position, text in lines if position > 6) == "é" * 100
    assert max(len(text.encode()) for _, text in lines) <= 50 + 16


def test_an_endless_document_is_cut_and_long_sentences_too(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_DOCUMENT_SENTENCES", 10)
    path = _write(tmp_path / "a", "x\n" * 25)
    assert [len(document) for document in _read(path)] == [10, 10, 5]
    path = _write(tmp_path / "a", "w " * 1000)
    assert [len(sentence.split()) for sentence in _read(path)[0]] == [512, 488]


CODE = "\n\n def f():\n    return 1 \n\n\n  # 天。地。\nIt rained. He left.\t\n"


def test_a_text_as_it_stands_is_its_parts_joined(tmp_path):
    for end in ("\n", "\r\n"):
        path = _write(tmp_path / "a", CODE.replace("\n", end))
        (parts,) = _read(path, "paragraphs", verbatim=True)
        assert "".join(parts) == CODE.strip("\n").rstrip() and len(parts) == 4
    path = _write(
        tmp_path / "b",
        "\n".join(
            json.dumps({"text": text})
            for text in (CODE, "\n \n", "a\r\nb", ["It rained. ", "He left."])
        ),
    )
    assert ["".join(parts) for parts in _read(path, "jsonl", verbatim=True)] == [
        CODE,
        "a\r\nb",
        "It rained. He left.",
    ]
    assert _read(_write(tmp_path / "c", "\n \n"), "paragraphs", verbatim=True) == []
    path = _write(tmp_path / "d", "It rained.\n He left. \n\n天。地。\n")
    assert _read(path, verbatim=True) == [["It rained.", " He left."], ["天。地。"]]


def test_lines_of_one_width_are_joined_in_a_text_as_it_stands(tmp_path):
    lines = [
        "The quick brown fox jumps over the lazy dog and then it goes on",
        "to sleep. After a while it wakes up again, and looks around for",
        "something to eat.",
    ]
    path = _write(tmp_path / "a", "\n".join(["HEADING", "", *lines, "", *lines, ""] * 3))
    (parts,) = _read(path, "paragraphs", verbatim=True)
    assert "".join(parts) == "\n".join(["HEADING", *[" ".join(lines)] * 2] * 3)


def test_a_long_text_as_it_stands_is_cut_into_documents(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_DOCUMENT_SENTENCES", 3)
    text = "\n".join(map(str, range(10)))
    found = _read(_write(tmp_path / "a", text), "paragraphs", verbatim=True)
    assert [len(parts) for parts in found] == [3, 3, 3, 1]
    assert "".join(part for parts in found for part in parts) == text


def test_a_long_line_of_a_text_as_it_stands_is_cut_between_words(tmp_path):
    text = "It rained  and " * 3000 + "x" * 30_000
    (parts,) = _read(_write(tmp_path / "a", text), "paragraphs", verbatim=True)
    assert "".join(parts) == text
    assert [len(part) // 1000 for part in parts] == [10, 10, 10, 10, 34]
    assert all(part.startswith(("  and", " It", " rained")) for part in parts[1:])


def test_lines_that_end_with_blanks_are_parts_of_their_own(tmp_path):
    lines = [f"= It is {number} = " for number in range(500)]
    for end in ("\n", "\r\n"):
        text = end.join(lines)
        assert "".join(documents.document_of(text, verbatim=True)) == text
        assert len(documents.document_of(text, verbatim=True)) == 501


@pytest.mark.parametrize("encoding", ["cp037", "cp500", "utf-16-be", "utf-32"])
def test_lines_end_where_the_encoding_ends_them(tmp_path, encoding):
    path = tmp_path / "a.txt"
    path.write_bytes("One two.\nThree.\n\nFour.\n".encode(encoding))
    assert list(read_documents(Part(str(path)), "lines", encoding)) == [
        ["One two.", "Three."],
        ["Four."],
    ]
