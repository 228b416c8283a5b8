"""Runs that train XLNets."""

import json
import pathlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import pretrain
from keras_attn.errors import UserError
from keras_attn.inference.embed_files import embed_texts
from keras_attn.models import XLNetPretrainer
from keras_attn.tasks.permutation_lm.examples import PermutationExamples
from keras_attn.text.sentence_pieces import SentencePieceTokenizer
from tests.support.small_language_models import config_of

pytestmark = pytest.mark.runs

FOREIGN = pathlib.Path(__file__).parents[2] / "golden" / "language_models" / "xlnet_memory"


def _config(folder, **fields):
    return config_of(folder, "sentencepiece", **fields)


def test_it_learns_what_is_left_out(trained):
    assert trained[1]["plm_accuracy"] > 0.7


def _losses(model, rows, number, memory=0):
    """Cross-entropy of each predicted token of a row, by a pass over its context alone.

    Only context tokens and earlier predicted tokens are left unchanged: all others become another
    token, of which nothing may depend.
    """
    kept = {name: array[number : number + 1] for name, array in rows.items()}
    ranks, found = kept["permutation_ranks"][0], []
    for slot in np.flatnonzero(kept["mask_weights"][0]):
        place = kept["mask_positions"][0, slot]
        ids = np.where((ranks >= ranks[place]), 9, kept["token_ids"][0])[None]
        given = {**kept, "token_ids": ids, "mask_positions": np.array([[place]], np.int32)}
        for name in ("mask_ids", "mask_weights", "sample_weight"):
            given.pop(name, None)
        logits = np.float64(ops.convert_to_numpy(model(given)["logits"]))[0, 0]
        shares = logits - logits.max()
        found.append(np.log(np.exp(shares).sum()) - shares[kept["mask_ids"][0, slot]])
    return found


@pytest.mark.parametrize(
    "memory, bidirectional",
    [(0, True), (16, True), pytest.param(16, False, marks=pytest.mark.slow)],
)
def test_the_loss_is_that_of_each_token_after_those_before_it(
    corpus, tmp_path, memory, bidirectional
):
    run = tmp_path / "run"
    results = pretrain(
        _config(
            corpus,
            **{
                "model.memory_length": memory,
                "data.bidirectional": bidirectional,
                "train.steps": 30,
            },
        ),
        workdir=str(run),
    )
    model = keras.saving.load_model(run / "model.keras")
    assert type(model) is XLNetPretrainer and model.backbone.memory_length == memory
    tokenizer = SentencePieceTokenizer.read(run)
    examples = PermutationExamples(
        str(run / "data/validation"),
        tokenizer,
        length=24,
        bidirectional=bidirectional,
        memory=memory,
        exact=True,
    )
    rows = examples.rows(0, examples.num_examples)
    losses = [_losses(model, rows, number) for number in range(0, examples.num_examples, 4)]
    whole = []
    for number in range(0, examples.num_examples, 4):
        kept = {name: array[number : number + 1] for name, array in rows.items()}
        errors = ops.convert_to_numpy(model(kept)["errors"])[0]
        whole.append(errors[kept["mask_weights"][0] > 0].tolist())
    for one, other in zip(losses, whole, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    errors = ops.convert_to_numpy(model(rows)["errors"])
    weights = rows["mask_weights"]
    mean = (errors * weights).sum() / weights.sum()
    assert results["plm_loss"] == pytest.approx(mean, rel=1e-5)
    targets = [tokenizer.vocabulary[token] for token in rows["mask_ids"][weights > 0]]
    for name, text in (
        ("character", "".join(targets)),
        ("visible_character", "".join(targets).replace("\u2581", "")),
    ):
        assert results[f"plm_loss_per_{name}"] == pytest.approx(
            mean * len(targets) / len(text), rel=1e-5
        )


def test_memory_is_seen_and_padding_in_it_is_not(corpus, tmp_path):
    run = tmp_path / "run"
    pretrain(_config(corpus, **{"model.memory_length": 16}), workdir=str(run))
    model = keras.saving.load_model(run / "model.keras")
    tokenizer = SentencePieceTokenizer.read(run)
    rows = PermutationExamples(
        str(run / "data/validation"), tokenizer, length=24, memory=16, exact=True
    ).rows(0, 3)
    wanted = ops.convert_to_numpy(model(rows)["logits"])
    other = {**rows, "memory_ids": np.where(rows["memory_mask"] > 0, rows["memory_ids"], 11)}
    np.testing.assert_allclose(ops.convert_to_numpy(model(other)["logits"]), wanted, atol=1e-5)
    changed = {**rows, "memory_ids": np.full_like(rows["memory_ids"], 11)}
    found = ops.convert_to_numpy(model(changed)["logits"])
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-5)  # before it there is nothing
    assert np.abs(found[1:] - wanted[1:]).max() > 1e-4


@pytest.mark.slow
def test_a_resumed_run_is_bitwise_identical(corpus, tmp_path):
    fields = {
        "train.schedule": "constant",
        "train.warmup_fraction": 0.0,
        "model.dropout": 0.1,
        "model.memory_length": 8,
        "data.bidirectional": True,
        "model.num_layers": 2,
        "model.hidden_dim": 64,
    }
    wanted = pretrain(
        _config(corpus, **fields, **{"train.steps": 20}), workdir=str(tmp_path / "whole")
    )
    for steps in (7, 20):
        found = pretrain(
            _config(corpus, **fields, **{"train.steps": steps}), workdir=str(tmp_path / "broken")
        )
    assert found["weights_sha256"] == wanted["weights_sha256"]


def test_a_run_starts_from_another_and_may_add_memory_and_dropout(trained, corpus, tmp_path):
    begun = pretrain(
        _config(corpus, **{"train.steps": 1, "train.learning_rate": 1e-9, "data.vocab_size": 999}),
        workdir=str(tmp_path / "next"),
        pretrained=str(trained[0]),
    )
    for name in ("plm_loss", "plm_accuracy"):
        assert begun[name] == pytest.approx(trained[1][name], rel=1e-4)
    more = pretrain(
        _config(corpus, **{"train.steps": 1, "model.memory_length": 8, "model.dropout": 0.25}),
        workdir=str(tmp_path / "memory"),
        pretrained=str(trained[0]),
    )
    saved = json.loads((tmp_path / "memory/config.json").read_text())["architecture"]
    assert saved["memory_length"] == 8 and more["plm_loss"] < 2 * trained[1]["plm_loss"] + 1
    backbone = keras.saving.load_model(tmp_path / "memory/model.keras").backbone
    assert backbone.dropout == backbone.attention_dropout == 0.25


def test_a_model_of_transformers_keeps_its_memory_length(corpus, tmp_path):
    """It reuses 3 of the 4 tokens of its memory when it reads on; here all are seen."""
    config = _config(corpus, **{"train.steps": 2, "data.bidirectional": True})
    config.model.update(num_layers=None, hidden_dim=None, num_heads=None)
    results = pretrain(config, workdir=str(tmp_path / "run"), pretrained=str(FOREIGN))
    saved = json.loads((tmp_path / "run/config.json").read_text())["architecture"]
    assert (saved["memory_length"], saved["reuse_length"]) == (4, 3)
    assert np.isfinite(results["plm_loss"])


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"data.length": 4}, "data.length must be at least 5"),
        ({"data.predicted_fraction": 1.0}, r"in \(0, 1\). Received: data.predicted_fraction=1.0"),
        ({"model.size": "huge"}, "model.size must be one of tiny,.*Received: model.size=huge"),
        ({"model.num_heads": 3}, "hidden_dim must be a multiple of num_heads"),
        ({"model.memory_length": -1}, "memory_length=-1"),
        ({"data.vocab_size": 12}, "vocab_size=12 is too small"),
        ({"data.vocab": "nowhere"}, "Cannot read nowhere: No such file"),
        ({"data.train": "nowhere.txt"}, "nowhere.txt"),
        ({"pretrained": "nowhere"}, "nowhere does not exist"),
    ],
)
def test_what_is_wrong_is_an_error(corpus, tmp_path, fields, message):
    with pytest.raises(UserError, match=message):
        pretrain(_config(corpus, **fields), workdir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_its_workdir_is_no_encoder(trained):
    with pytest.raises(UserError, match="require an encoder.*a model for permutation_lm"):
        embed_texts(str(trained[0]), ["a"])
