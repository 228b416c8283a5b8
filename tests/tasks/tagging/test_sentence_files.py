"""Files of sentences: formats, columns, and invalid files."""

import gzip
import json
import re

import pytest

from keras_attn.data.sources import streams
from keras_attn.defaults import default_config
from keras_attn.errors import UserError
from keras_attn.tasks.tagging.sentences import encode_tags, read_sentences
from keras_attn.tasks.tagging.splits import read_splits, with_iob2
from tests.support.small_runs import SmallRun

CONLL = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\nGerman JJ I-NP I-MISC\n"
CONLLU = """# sent_id = 1
# text = The cats' toy
1\tThe\tthe\tDET\tDT\t_\t3\tdet\t_\t_
2-3\tcats'\t_\t_\t_\t_\t_\t_\t_\t_
2\tcats\tcat\tNOUN\tNNS\t_\t3\tnmod\t_\t_
3\t'\t's\tPART\tPOS\t_\t2\tcase\t_\t_
3.1\tgone\tgo\tVERB\t_\t_\t_\t_\t_\t_
4\t2 000\t2000\tNUM\tCD\t_\t0\troot\t_\t_

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""
ROW = "1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_"


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def words_and_tags(found):
    return [(row.words, row.tags) for row in found.rows]


def test_conll_columns(tmp_path):
    path = write(tmp_path, "a.conll", CONLL)
    assert words_and_tags(read_sentences(path)) == [
        (["EU", "rejects"], ["I-ORG", "O"]),
        (["German"], ["I-MISC"]),
    ]
    assert read_sentences(path, label="1").rows[0].tags == ["NNP", "VBZ"]
    assert read_sentences(path, text="3", label="-2").rows[0].words == ["I-ORG", "O"]
    assert read_sentences(path, tags=False).rows[1].tags == []
    assert [row.lines for row in read_sentences(path).rows] == [[3, 4], [7]]


def test_words_contain_spaces_only_in_files_with_tabs(tmp_path):
    path = write(tmp_path, "a.tsv", "2 000\tNUM\r\n#tag\tX\r\n")
    assert words_and_tags(read_sentences(path)) == [(["2 000", "#tag"], ["NUM", "X"])]


def test_only_spaces_and_tabs_separate_columns(tmp_path):
    text = "10\u00a0000  B-X \na\u2028b I-X\n\u3000 O\n"
    path = write(tmp_path, "a.conll", text.replace("\u3000", "\u3000b"))
    assert words_and_tags(read_sentences(path)) == [
        (["10\u00a0000", "a\u2028b", "\u3000b"], ["B-X", "I-X", "O"])
    ]
    with pytest.raises(UserError, match="must not be empty.*line 3"):
        read_sentences(write(tmp_path, "a.conll", text))


def test_conllu_without_ranges_and_empty_nodes(tmp_path):
    path = write(tmp_path, "a.conllu", CONLLU)
    assert words_and_tags(read_sentences(path)) == [
        (["The", "cats", "'", "2 000"], ["DET", "NOUN", "PART", "NUM"]),
        (["Yes"], ["INTJ"]),
    ]
    assert read_sentences(path, label="xpos", text="lemma").rows[0].tags[0] == "DT"


def test_jsonl_and_gzip(tmp_path):
    rows = [{"tokens": ["a", "b"], "tags": ["O", "B-X"]}, {"tokens": ["c"], "tags": [3]}]
    text = "\n".join(map(json.dumps, rows)).encode()
    path = write(tmp_path, "a.jsonl.gz", gzip.compress(text))
    assert words_and_tags(read_sentences(path)) == [(["a", "b"], ["O", "B-X"]), (["c"], ["3"])]
    path = write(tmp_path, "b.json", json.dumps([{"w": ["a"], "t": ["O"]}]))
    assert words_and_tags(read_sentences(path, text="w", label="t")) == [(["a"], ["O"])]


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.conll", "a O\nb\n", "line 2"),
        ("a.conll", "a O\nb X O\n", "has 3, and the first one 2.*line 2"),
        ("a.conll", "word\n", "separated by a tab or spaces.*line 1"),
        ("a.conll", "\n\n", "at least one sentence"),
        ("a.conll", b"a O\n\xff O\n", "must be utf-8; set data.encoding.*line 2"),
        ("a.conll", "a\tO\n \tO\n", "must not be empty.*line 2"),
        ("a.conllu", "1\tThe\tDET\n", "must have 10 columns.*line 1"),
        ("a.conllu", f"{ROW.replace('INTJ', '_')}\n", "its upos is '_'.*line 1"),
        ("a.conllu", f"{ROW}\n2 b c\n", "has 1, and the first one 10.*line 2"),
        ("a.conllu", f"{ROW}\n{ROW}\n", "empty line must follow .* 1 follows word 1.*line 2"),
        ("a.conllu", f"{ROW.replace('1', 'x')}\n", "begin with its number, not 'x'.*line 1"),
        ("a.conllu", f"{ROW.replace('1', '9' * 5000)}\n", "begin with its number.*line 1"),
        ("a.conllu", ROW.replace("\t", " "), "must have 10 columns.*line 1"),
        ("a.jsonl", '{"tokens": ["a", "b"], "tags": ["O"]}', "2 tokens and 1 tag.*line 1"),
        ("a.jsonl", '{"tokens": [], "tags": []}', "at least one token.*line 1"),
        ("a.jsonl", '{"tokens": ["a"], "tags": [true]}', "tags must be a list of.*line 1"),
        ("a.jsonl", '{"tokens": "a", "tags": ["O"]}', "tokens must be a list of strings.*line 1"),
        ("a.jsonl", '{"tokens": ["a"], "tags": null}', "tags must be a list of.*line 1"),
        ("a.jsonl", '{"tokens": ["a"], "labels": ["O"]}', "Unknown column 'tags'.*labels"),
        ("a.jsonl", "{", "JSON object.*line 1"),
        ("a.xyz", "a O\n", "must end in .conllu"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(tmp_path, name, text, message):
    with pytest.raises(UserError, match=message) as found:
        read_sentences(write(tmp_path, name, text))
    assert "\n" not in str(found.value) and name in str(found.value)


def test_unknown_formats_and_encodings_are_an_error(tmp_path):
    path = write(tmp_path, "a.conll", CONLL)
    for options, message in (({"format": "csv"}, "must be"), ({"encoding": "nope"}, "encoding")):
        with pytest.raises(UserError, match=message):
            read_sentences(path, **options)


def test_standard_input_is_named_as_it_was_given(tmp_path, monkeypatch):
    path = write(tmp_path, "stdin", CONLL)  # its copy
    monkeypatch.setitem(streams._names, path, "-")
    with pytest.raises(UserError, match="conll. Received: '-'$"):
        read_sentences(path)
    with pytest.raises(UserError, match="The columns of - are 0 to 3"):
        read_sentences(path, format="conll", label="4")


def test_unknown_columns_are_an_error(tmp_path):
    for column in ("4", "-5", "form"):
        with pytest.raises(UserError, match="Unknown column .* are 0 to 3"):
            read_sentences(write(tmp_path, "a.conll", CONLL), label=column)
    with pytest.raises(UserError, match="Did you mean upos"):
        read_sentences(write(tmp_path, "a.conllu", CONLLU), label="uppos")


def test_bad_sentences_can_be_skipped(tmp_path):
    path = write(tmp_path, "a.conll", "a O\n\nb\n\nc I-X\n\nd B-X\n")
    found = read_sentences(path, on_bad_text="skip")
    assert found.words == [["a"], ["c"], ["d"]] and found.skipped == 1
    found = with_iob2(found, "iob2", "skip")
    assert found.words == [["a"], ["d"]] and found.skipped == 2


def test_a_tag_that_breaks_the_scheme_has_its_line(tmp_path):
    found = read_sentences(write(tmp_path, "a.conll", "a O\n\nb B-X\nc I-Y\n"))
    with pytest.raises(UserError, match="'I-Y' after 'B-X' in .*a.conll, line 4"):
        with_iob2(found, "iob2", "error")
    path = write(tmp_path, "b.conll", "a B-X\nb O\nc B-X\n")
    for scheme, message in (
        ("iobes", "'O' after 'B-X' in .*line 2"),
        ("iob1", "'B-X' after the s"),
    ):
        with pytest.raises(UserError, match=message):
            with_iob2(read_sentences(path), scheme, "error")
    path = write(tmp_path, "c.conll", "a B-X\n")
    with pytest.raises(UserError, match="the end of the sentence after 'B-X' in .*line 1"):
        with_iob2(read_sentences(path), "iobes", "error")
    path = write(tmp_path, "a.jsonl", '\n{"tokens": ["a", "b"], "tags": ["O", "I-Y"]}')
    with pytest.raises(UserError, match="'I-Y' after 'O' in .*a.jsonl, line 2, token 2"):
        with_iob2(read_sentences(path), "iob2", "error")


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("a O\nb B-X\n\nc o\n", "also 'B-X', because 'o' in .*a.conll, line 4 is not the tag"),
        ("a O\nb B-X\nc I-X\n", None),
        ("a DET\nb I\nc O\n", None),
    ],
)
def test_one_tag_that_makes_all_raw_is_named(tmp_path, text, warned):
    path = write(tmp_path, "a.conll", text)
    config = default_config("tagging")
    config.update_from_flattened_dict({"data.train": path, "data.validation": path})
    run = SmallRun(config)
    _, scheme, _ = read_splits(run)
    assert (scheme == "raw") == ("I-X" not in text)
    assert bool(run.said) == bool(warned)
    assert not warned or re.search(warned, run.said[0])


def test_tags_that_are_not_in_the_training_data_are_an_error(tmp_path):
    found = read_sentences(write(tmp_path, "a.conll", "a O\nb B-PER\n"))
    assert encode_tags(found, ("B-PER", "O")).tolist() == [1, 0]
    with pytest.raises(UserError, match="'B-PER' in .*line 2.*Did you mean B-PERS"):
        encode_tags(found, ("O", "B-PERS"))
