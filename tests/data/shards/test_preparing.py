"""Text that is tokenised ahead, with the tokenizers of all families."""

import json

import pytest

from keras_attn import pretrain
from keras_attn.data.shards.prepare_folder import prepare_folder
from keras_attn.data.shards.shard_files import read_index
from keras_attn.errors import UserError
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES, make_tokenizer
from tests.support.small_corpus import shard_files
from tests.support.small_language_models import config_of, write_texts

pytestmark = pytest.mark.runs

SIZES = {"wordpiece": 200, "bpe": 320, "roberta_bpe": 320, "sentencepiece": 60}


def _config(kind, folder, **fields):
    return config_of(folder, kind, **{"train.steps": 2, **fields})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_texts(folder / "train.txt", 400, 0)
    write_texts(folder / "valid.txt", 30, 1)
    return folder


@pytest.mark.parametrize("kind", SIZES)
def test_a_run_on_prepared_text_is_that_on_the_text(corpus, tmp_path, kind):
    wanted = pretrain(_config(kind, corpus), workdir=str(tmp_path / "run"))
    ahead = str(tmp_path / "ahead")
    index = prepare_folder(
        str(corpus / "train.txt"), ahead, tokenizer=kind, format="lines", vocab_size=SIZES[kind]
    )
    assert shard_files(tmp_path / "ahead") == shard_files(tmp_path / "run" / "data" / "train")
    for name in TOKENIZER_TYPES[kind].files:
        assert (tmp_path / "ahead" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()
    for number, vocab in enumerate((ahead, None)):
        found = pretrain(
            _config(kind, corpus, **{"data.train": ahead, "data.vocab": vocab}),
            workdir=str(tmp_path / f"{number}"),
        )
        assert found["weights_sha256"] == wanted["weights_sha256"]
    # A vocabulary that is given, that of a run or of prepared text.
    again = prepare_folder(
        str(corpus / "train.txt"),
        str(tmp_path / "again"),
        tokenizer=kind,
        format="lines",
        vocab=str(tmp_path / "run"),
    )
    assert again["shards"] == index["shards"]
    (tmp_path / "foxes.txt").write_text((corpus / "train.txt").read_text().replace("cat", "fox"))
    prepare_folder(
        str(tmp_path / "foxes.txt"),
        str(tmp_path / "other"),
        tokenizer=kind,
        format="lines",
        vocab_size=SIZES[kind],
    )
    with pytest.raises(UserError, match="another vocabulary than the run"):
        pretrain(
            _config(kind, corpus, **{"data.train": ahead, "data.vocab": str(tmp_path / "other")}),
            workdir=str(tmp_path / "no"),
        )


def test_case_is_that_of_the_prepared_text(corpus, tmp_path):
    (tmp_path / "text.txt").write_text((corpus / "train.txt").read_text().upper())
    folders = [str(tmp_path / name) for name in ("given", "upper")]
    for folder, lowercase in zip(folders, (True, None), strict=True):
        prepare_folder(
            str(tmp_path / "text.txt"),
            folder,
            tokenizer="sentencepiece",
            format="lines",
            vocab_size=60,
            lowercase=lowercase,
        )
        assert read_index(folder)["lowercase"] == bool(lowercase)
    config = _config("sentencepiece", corpus, **{"data.train": folders[0], "train.steps": 1})
    pretrain(config, workdir=str(tmp_path / "run"))
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert saved["config"]["data"]["lowercase"] is True
    with pytest.raises(UserError, match="not supported with bpe.*Received: lowercase=True"):
        prepare_folder(str(corpus / "train.txt"), folders[0], tokenizer="bpe", lowercase=True)


@pytest.mark.parametrize("kind", SIZES)
def test_text_prepared_for_another_family_names_the_tokenizer(corpus, tmp_path, kind):
    other, size = ("sentence_pieces", 60) if kind == "wordpiece" else ("word_pieces", 200)
    prepare_folder(
        str(corpus / "train.txt"),
        str(tmp_path / "ahead"),
        format="lines",
        tokenizer=other,  # older names
        vocab_size=size,
    )
    with pytest.raises(
        UserError, match=f"Prepare the text in another folder with --tokenizer={kind}"
    ):
        pretrain(
            _config(kind, corpus, **{"data.train": str(tmp_path / "ahead"), "data.vocab": None}),
            workdir=str(tmp_path / "run"),
        )


@pytest.mark.parametrize("kind", TOKENIZER_TYPES)
def test_a_tokenizer_is_made_again_from_its_files_and_from_its_recipe(tmp_path, kind):
    texts = ["The cat, the 3,000 dogs and grün", "a bird sees the cat"] * 20
    made = TOKENIZER_TYPES[kind].train(texts, 320 if "bpe" in kind else 80, False)
    made.write(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == set(TOKENIZER_TYPES[kind].files)
    paths = [
        tmp_path,
        *(tmp_path / name for name in TOKENIZER_TYPES[kind].files if "bpe" not in kind),
    ]
    for again in (
        *(TOKENIZER_TYPES[kind].read(str(path), False) for path in paths),
        make_tokenizer(json.loads(json.dumps(made.recipe))),
    ):
        assert again.sha256 == made.sha256
        assert again.encode(texts)[0].tolist() == made.encode(texts)[0].tolist()
