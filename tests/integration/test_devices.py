"""One device, two mirrored devices and two workers give the same results."""

import numpy as np
import pytest

from tests.support.started_commands import (
    config_flags,
    finish,
    losses,
    results,
    run,
    start_workers,
    weights,
)

MEASURED = ("mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy", "loss")


def _assert_same_run(first, second):
    assert len(losses(first)) == 20
    np.testing.assert_allclose(losses(first), losses(second), rtol=1e-5)
    ours, theirs = weights(first, 20), weights(second, 20)
    assert set(ours) == set(theirs)
    for name, value in ours.items():
        np.testing.assert_allclose(value, theirs[name], atol=1e-5, err_msg=name)
    for name in MEASURED:
        assert results(first)[name] == pytest.approx(results(second)[name], abs=1e-5)


def _flags(corpus, workdir, jit):
    return [
        f"--workdir={workdir}",
        *corpus,
        *config_flags(**{"model.dropout": 0.0, "train.jit": jit}),
    ]


@pytest.mark.slow
def test_two_mirrored_devices_equal_one(pretrained, corpus, tmp_path):
    flags = _flags(corpus, tmp_path / "two", False)
    run("pretrain", *flags, "--strategy=mirrored", "--virtual_devices=2")
    _assert_same_run(pretrained, tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "jit"), [("adamw", True), ("lamb", False)])
def test_one_device_two_mirrored_and_two_workers_are_equal(corpus, tmp_path, optimizer, jit):
    changed = config_flags(
        **{"train.optimizer": optimizer, "train.learning_rate": 0.01, "train.clip_norm": 0.5}
    )
    one, two, workers = (tmp_path / name for name in ("one", "two", "workers"))
    run("pretrain", *_flags(corpus, one, False), *changed)
    run(
        "pretrain",
        *_flags(corpus, two, jit),
        *changed,
        "--strategy=mirrored",
        "--virtual_devices=2",
    )
    statuses, errors = finish(start_workers(2, "pretrain", *_flags(corpus, workers, jit), *changed))
    assert statuses == [0, 0], errors
    assert errors[1] == "", "only the chief shows progress, and nobody warnings"
    _assert_same_run(one, two)
    _assert_same_run(one, workers)


@pytest.mark.slow
def test_finetuning_is_the_same_on_all_devices(pretrained, labelled, tmp_path):
    flags = [
        f"--pretrained={pretrained}",
        *labelled,
        *config_flags(
            **{
                "model.dropout": 0.0,
                "train.epochs": 3,
                "train.accumulate": 2,
                "data.length": 10,
                "data.windows": 3,
                "train.class_weights": True,
                "eval.metric": "loss",
                "eval.every": 3,
                # At a rate of 0.02 each step amplifies rounding errors.
                "train.learning_rate": 0.002,
            }
        ),
    ]
    one, two, workers = (tmp_path / name for name in ("one", "two", "workers"))
    run("finetune", f"--workdir={one}", *flags)
    # Packing, compilation and mirroring together do not change the result.
    run(
        "finetune",
        f"--workdir={two}",
        *flags,
        "--strategy=mirrored",
        "--virtual_devices=2",
        "--config.train.jit=True",
        "--config.data.pack=4",
        "--config.data.by_length=True",
    )
    statuses, errors = finish(start_workers(2, "finetune", f"--workdir={workers}", *flags))
    assert statuses == [0, 0], errors
    for other in (two, workers):
        np.testing.assert_allclose(losses(one), losses(other), rtol=1e-4, atol=1e-6)
        assert results(one)["accuracy"] == results(other)["accuracy"]
        assert results(one)["loss"] == pytest.approx(results(other)["loss"], rel=1e-4)


@pytest.mark.slow
def test_translators_are_the_same_on_all_devices(tmp_path):
    random = np.random.default_rng(0)
    rows = [
        "".join(random.choice(list("abcde "), random.integers(3, 20))).strip() or "a"
        for _ in range(200)
    ]
    (tmp_path / "a.txt").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "b.txt").write_text("".join(f"{row[::-1]}\n" for row in rows))
    flags = [
        "--config=configs/multi30k.py",
        *config_flags(
            **{
                **{
                    f"data.{split}.{side}": tmp_path / name
                    for split in ("train", "validation")
                    for side, name in (("source", "a.txt"), ("target", "b.txt"))
                },
                "data.vocab_size": 30,
                "data.length": 32,
                "model.num_layers": 1,
                "model.hidden_dim": 16,
                "model.num_heads": 2,
                "model.intermediate_dim": 32,
                "model.dropout": 0.0,
                "train.batch_tokens": 256,
                "train.epochs": 2.0,
                "checkpoint.average": 2,
                "checkpoint.every": 5,
                "eval.every": 0,
            }
        ),
    ]
    one, two, workers = (tmp_path / name for name in ("one", "two", "workers"))
    run("finetune", f"--workdir={one}", *flags)
    run("finetune", f"--workdir={two}", *flags, "--strategy=mirrored", "--virtual_devices=2")
    statuses, errors = finish(start_workers(2, "finetune", f"--workdir={workers}", *flags))
    assert statuses == [0, 0], errors
    for other in (two, workers):
        np.testing.assert_allclose(losses(one), losses(other), rtol=1e-5)
        for name in ("token_loss", "bleu", "chrf"):
            assert results(one)[name] == pytest.approx(results(other)[name], abs=1e-3), name


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "jit"), [("in_batch_negatives", True), ("cosent", False)])
def test_losses_over_the_global_batch_are_the_same_on_all_devices(tmp_path, loss, jit):
    random = np.random.default_rng(0)
    words = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")
    rows = [
        f"{' '.join(random.choice(words, 3))}\t{' '.join(random.choice(words, 3))}\t{n % 6}\n"
        for n in range(64)
    ]
    (tmp_path / "pairs.tsv").write_text("text\tsame\tscore\n" + "".join(rows))
    fields = {
        "data.train": tmp_path / "pairs.tsv",
        "data.validation": tmp_path / "pairs.tsv",
        "data.text": "text",
        "data.text_pair": "same",
        "data.vocab_size": 90,
        "model.dropout": 0.0,
        "train.loss": loss,
        "train.batch_size": 16,
        "train.learning_rate": 0.002,
        "train.steps": 8,
    }
    if loss == "cosent":
        fields["data.label"] = "score"
    flags = ["--config=embedding", *config_flags(**fields)]
    one, four, workers = (tmp_path / name for name in ("one", "four", "workers"))
    run("finetune", f"--workdir={one}", *flags)
    run(
        "finetune",
        f"--workdir={four}",
        *flags,
        f"--config.train.jit={jit}",
        "--strategy=mirrored",
        "--virtual_devices=4",
    )
    statuses, errors = finish(start_workers(2, "finetune", f"--workdir={workers}", *flags))
    assert statuses == [0, 0], errors
    for found in (four, workers):
        np.testing.assert_allclose(losses(found), losses(one), rtol=1e-5)
