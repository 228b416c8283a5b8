"""Tokenizers in GPT-2 folders of `transformers`: equivalent ones, and unsupported ones."""

import json
import pathlib
import shutil

import pytest
import tokenizers
from tokenizers import normalizers, pre_tokenizers, processors

from keras_attn import convert
from keras_attn.errors import UserError

MODEL = pathlib.Path(__file__).parents[2] / "golden" / "language_models" / "gpt2"
TEXTS = ["The quick  brown fox", " it's THE\n cat", "Naïve <|endoftext|> 🙂"]
END = "<|endoftext|>"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(MODEL, folder)
    return folder


def rewrite(folder, **parts):
    """Writes a changed tokenizer.json; returns the tokenizer of the library."""
    path = str(folder / "tokenizer.json")
    whole = tokenizers.Tokenizer.from_file(path)
    for name, part in parts.items():
        setattr(whole, name, part)
    whole.save(path)
    return whole


def write_files(folder):
    """Writes vocab.json and merges.txt of tokenizer.json."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [" ".join(pair) for pair in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))


def template(single):
    return processors.TemplateProcessing(single=single, special_tokens=[(END, 282)])


@pytest.mark.parametrize(
    "after",
    [
        processors.ByteLevel(trim_offsets=False),
        processors.ByteLevel(add_prefix_space=True),
        template("$A"),
        processors.Sequence([processors.ByteLevel(), template("$A")]),
    ],
)
@pytest.mark.parametrize("files", [False, True])
def test_a_post_processor_that_adds_nothing_is_supported(folder, after, files):
    whole = rewrite(folder, post_processor=after)
    if files:
        write_files(folder)
    ours = convert.read(folder).tokenizer
    for text in TEXTS[:2]:
        assert ours.encode([text])[0].tolist() == whole.encode(text).ids


@pytest.mark.parametrize(
    "parts, message",
    [
        (
            {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)},
            "pre_tokenizer.use_regex=False",
        ),
        (
            {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)},
            "pre_tokenizer.add_prefix_space=True",
        ),
        ({"pre_tokenizer": pre_tokenizers.Whitespace()}, "pre_tokenizer=.*Whitespace"),
        ({"normalizer": normalizers.Lowercase()}, "normalizer=.*Lowercase"),
        ({"post_processor": template(f"{END} $A")}, "post_processor=.*TemplateProcessing"),
        (
            {
                "post_processor": processors.Sequence(
                    [processors.ByteLevel(), template(f"$A {END}")]
                )
            },
            "post_processor=.*Sequence",
        ),
        (
            {"post_processor": processors.BertProcessing((END, 282), (END, 282))},
            "post_processor=.*BertProcessing",
        ),
    ],
)
@pytest.mark.parametrize("files", [False, True])
def test_a_tokenizer_that_tokenizes_differently_is_rejected(folder, parts, message, files):
    ours = convert.read(folder).tokenizer
    whole = rewrite(folder, **parts)
    assert any(ours.encode([text])[0].tolist() != whole.encode(text).ids for text in TEXTS)
    if files:  # which do not contain the setting
        write_files(folder)
    with pytest.raises(UserError, match=f"byte-level BPE like GPT-2's. Received: {message}"):
        convert.read(folder)


def test_a_file_without_use_regex_is_supported(folder):
    sha256 = convert.read(folder).tokenizer.sha256
    found = json.loads((folder / "tokenizer.json").read_text())
    del found["pre_tokenizer"]["use_regex"], found["post_processor"], found["model"]["type"]
    (folder / "tokenizer.json").write_text(json.dumps(found))
    assert convert.read(folder).tokenizer.sha256 == sha256


@pytest.mark.parametrize(
    "part, value",
    [
        ("model", None),
        ("model", []),
        ("pre_tokenizer", None),
        ("pre_tokenizer", "ByteLevel"),
        ("post_processor", "Sequence"),
        ("post_processor", {"type": "Sequence"}),
        ("post_processor", {"type": "TemplateProcessing", "single": [1]}),
    ],
)
def test_settings_of_other_types_are_rejected(folder, part, value):
    found = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**found, part: value}))
    with pytest.raises(UserError, match=f"byte-level BPE like GPT-2's. Received: {part}="):
        convert.read(folder)


def test_files_that_contradict_each_other_are_rejected(folder):
    write_files(folder)
    sha256 = convert.read(folder).tokenizer.sha256
    merges = (folder / "merges.txt").read_text().splitlines(keepends=True)
    (folder / "merges.txt").write_text("".join([merges[0], merges[2], merges[1], *merges[3:]]))
    with pytest.raises(UserError, match="the same vocabulary and merges"):
        convert.read(folder)
    (folder / "tokenizer.json").unlink()
    assert convert.read(folder).tokenizer.sha256 != sha256


def test_an_added_token_has_its_row(folder):
    (folder / "added_tokens.json").write_text('{"[PAD]": 283}')
    tokenizer = convert.read(folder).tokenizer
    assert tokenizer.vocabulary[282:] == ["<|endoftext|>", "[PAD]", "[row 284]", "[row 285]"]
    assert tokenizer.decode([tokenizer.encode(["[PAD] <|endoftext|>"])[0]]) == [
        "[PAD] <|endoftext|>"
    ]


def test_the_end_of_sequence_token_may_be_an_added_token(folder):
    tokenizer = convert.read(folder).tokenizer
    (folder / "tokenizer.json").unlink()
    ids = {piece: number for number, piece in enumerate(tokenizer.vocabulary[:282])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "merges.txt").write_text("\n".join(map(" ".join, tokenizer.merges)))
    (folder / "added_tokens.json").write_text('{"<|endoftext|>": 282}')
    assert convert.read(folder).tokenizer.sha256 == tokenizer.sha256


def test_added_tokens_stay_special_and_padding_rows_get_no_token(folder, tmp_path):
    whole = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    whole.add_special_tokens(["[PAD]"])
    whole.save(str(folder / "tokenizer.json"))
    convert.convert(folder, tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "huggingface")
    text = "the cat[PAD] sat<|endoftext|>"
    found, wanted = (
        tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))
        for path in (tmp_path / "back", folder)
    )
    assert found.encode(text).ids == wanted.encode(text).ids
    assert found.get_vocab() == wanted.get_vocab()
    assert found.decode(found.encode(text).ids) == "the cat sat"
    assert json.loads((tmp_path / "back/vocab.json").read_text()).keys() == whole.get_vocab().keys()
    first, second = (convert.read(path).tokenizer for path in (folder, tmp_path / "back"))
    assert first.sha256 == second.sha256 and second.num_padding_rows == 2
