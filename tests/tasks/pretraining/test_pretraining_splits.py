"""Pretraining text without tokens to predict."""

import io

import pytest
import sentencepiece

from keras_attn import pretrain
from keras_attn.defaults import (
    language_modeling_defaults,
    permutation_modeling_defaults,
    pretraining_defaults,
)
from keras_attn.errors import UserError
from keras_attn.text.sentence_pieces import SPECIAL_TOKENS

KNOWN, UNKNOWN = "the cat sees a dog\na dog hears the bird\n\n" * 20, "漢字\n\n字\n\n漢\n"


def _pretrain(folder, defaults, train, validation, **fields):
    for name, text in (("train", train), ("valid", validation)):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    config = defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "train.txt"),
            "data.validation": str(folder / "valid.txt"),
            "data.format": "lines",
            "data.vocab_size": 300,
            "data.length": 16,
            "train.steps": 1,
            "train.batch_size": 4,
            "eval.batch_size": 4,
            **fields,
        }
    )
    return pretrain(config, workdir=str(folder / "run"))


def _pieces(path):
    """A model that adds no space to the start of a text, which would be a known token."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(KNOWN.split("\n")),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        control_symbols=list(SPECIAL_TOKENS),
        add_dummy_prefix=False,
        minloglevel=2,
    )
    path.write_bytes(model.getvalue())
    return str(path)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_bert_without_a_token_to_predict_is_an_error(tmp_path, split):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "a", "dog"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary))
    texts = {"train": KNOWN, "validation": KNOWN, split: UNKNOWN}
    with pytest.raises(UserError, match=f"data.{split} must contain tokens to predict.*none in"):
        _pretrain(
            tmp_path, pretraining_defaults, **texts, **{"data.vocab": str(tmp_path / "vocab.txt")}
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("split", ["train", "validation"])
def test_an_xlnet_without_a_token_to_predict_is_an_error(tmp_path, split):
    texts = {"train": KNOWN, "validation": KNOWN, split: UNKNOWN}
    with pytest.raises(UserError, match=f"data.{split} must contain tokens to predict.*none in"):
        _pretrain(
            tmp_path,
            permutation_modeling_defaults,
            **texts,
            **{"data.vocab": _pieces(tmp_path / "spiece.model")},
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("text", ["", " \n\n \t\n"])
@pytest.mark.parametrize(
    "defaults", [pretraining_defaults, language_modeling_defaults, permutation_modeling_defaults]
)
def test_text_without_a_word_is_an_error(tmp_path, defaults, text):
    with pytest.raises(UserError, match="The text must contain at least one word. .*train.txt"):
        _pretrain(tmp_path, defaults, text, KNOWN)
    assert not (tmp_path / "run").exists()
