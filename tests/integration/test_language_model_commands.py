"""The README's commands of GPT-2 and XLNet, one after the other."""

import json

import numpy as np
import pytest

from tests.support.started_commands import config_flags, finish, losses, results, run, start_workers

pytestmark = pytest.mark.slow

SMALL = config_flags(
    **{
        "data.format": "lines",
        "data.length": 32,
        "model.num_layers": 1,
        "model.hidden_dim": 32,
        "model.num_heads": 2,
        "train.batch_size": 8,
        "train.learning_rate": 0.01,
        "train.steps": 20,
        "eval.batch_size": 8,
    }
)


def _classify(pretrained, workdir, labelled):
    """Finetunes a classifier of good and bad texts, and predicts with it."""
    run(
        "finetune",
        "--config=configs/classify.py",
        f"--pretrained={pretrained}",
        f"--workdir={workdir}",
        *labelled,
    )
    assert results(workdir)["accuracy"] > 0.8
    out, _ = run(
        "finetune.predict", f"--workdir={workdir}", "--text=bas ben bin", "--text=tas ten tin"
    )
    head, *rows = (line.split("\t") for line in out.splitlines())
    assert head == ["label", "bad", "good"]
    assert [row[0] for row in rows] == ["good", "bad"]


def test_a_gpt2_is_prepared_pretrained_sampled_and_finetuned(texts, labelled, tmp_path):
    workdir, ids = tmp_path / "gpt2", tmp_path / "ids"
    run(
        "pretrain.prepare",
        "--tokenizer=bpe",
        f"--input={texts / 'train.txt'}",
        f"--output={ids}",
        "--vocab_size=320",
        "--format=lines",
    )
    run(
        "pretrain",
        "--config=configs/gpt2_small.py",
        f"--workdir={workdir}",
        *SMALL,
        *config_flags(
            **{
                "data.train": ids,
                "data.vocab": ids,
                "train.jit": True,
                "data.validation": texts / "valid.txt",
            }
        ),
    )
    assert {"perplexity", "word_perplexity", "character_perplexity"} <= set(results(workdir))
    generate = "pretrain.generate", f"--workdir={workdir}"
    first, other, again = (
        run(*generate, "--prompt=bas ben", *seed)[0] for seed in ([], ["--seed=1"], ["--seed=0"])
    )
    assert first.startswith("bas ben") and first.endswith("-" * 20 + "\n")
    assert first == again != other
    greedy, _ = run(*generate, "--prompt=bas ben", "--temperature=0", "--max_tokens=5")
    (tmp_path / "prompts.txt").write_text("bas ben\n\n")
    asked = f"--input={tmp_path / 'prompts.txt'}", f"--output={tmp_path / 'out.jsonl'}"
    run(*generate, *asked, "--beam=1", "--max_tokens=5")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(found) == 2 and greedy == found[0][0]["text"] + "\n" + "-" * 20 + "\n"
    (tmp_path / "prompts.txt").write_text("bas\n" * 260 + "bas " * 30 + "\n")
    _, err = run(*generate, *asked, status=2)
    assert "at most 32 tokens" in err and "in text 261" in err and err.count("\n") == 1
    _classify(workdir, tmp_path / "class", labelled)


def test_an_xlnet_is_pretrained_equally_by_one_and_two_workers_and_finetuned(
    texts, labelled, tmp_path
):
    flags = [
        "--config=configs/xlnet_small.py",
        *SMALL,
        *config_flags(
            **{
                "data.train": texts / "train.txt",
                "data.validation": texts / "valid.txt",
                "data.vocab_size": 100,
            }
        ),
    ]
    one, two = tmp_path / "one", tmp_path / "two"
    run("pretrain", f"--workdir={one}", *flags)
    statuses, errors = finish(start_workers(2, "pretrain", f"--workdir={two}", *flags))
    assert statuses == [0, 0], errors
    assert len(losses(one)) == 20
    np.testing.assert_allclose(losses(two), losses(one), rtol=1e-4)
    assert results(two)["plm_loss"] == pytest.approx(results(one)["plm_loss"], rel=1e-4)
    generate = "pretrain.generate", f"--workdir={two}", "--prompt=bas ben", "--max_tokens=5"
    first, again = run(*generate)[0], run(*generate)[0]
    assert first.startswith("bas ben") and first.endswith("-" * 20 + "\n") and first == again
    _classify(two, tmp_path / "class", labelled)
