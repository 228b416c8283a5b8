"""The commands with folders of sentence-transformers."""

import json

import numpy as np
import pytest

from keras_attn import finetune, load
from keras_attn.defaults import finetuning_defaults
from tests.support.sentence_transformers_folders import edit, make_folder
from tests.support.started_commands import run

pytestmark = pytest.mark.runs


def test_convert_and_embed_obey_the_folder(tmp_path):
    folder, workdir, output = (tmp_path / name for name in ("model", "run", "out.npy"))
    make_folder(folder, "cls")
    run("keras_attn.convert", f"--from={folder}", f"--to={workdir}")
    model, flags = load(folder), ("finetune.embed", f"--workdir={workdir}", f"--output={output}")
    for options, arguments in (
        ((), {}),
        (("--prompt=",), {"prompt": ""}),
        (("--prompt=c: ", "--pooling=max"), {"prompt": "c: ", "pooling": "max"}),
    ):
        run(*flags, "--text=a b", *options)
        expected = model.embed(["a b"], **arguments)
        np.testing.assert_allclose(np.load(output, allow_pickle=False), expected, atol=1e-6)
    _, err = run(*flags, "--text=a", "--prompt=qurey", status=2)
    assert "Did you mean query?" in err and err.count("\n") == 1


def test_finetuning_starts_from_the_encoder_and_says_what_it_does_not_use(tmp_path, capsys):
    folder = make_folder(tmp_path / "model", "dense")
    edit(folder / "sentence_bert_config.json", max_seq_length=9)
    edit(folder / "config_sentence_transformers.json", prompts={"query": "a: ", "document": ""})
    rows = [{"text": "ab"[n % 2], "label": "xy"[n % 2]} for n in range(16)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(tmp_path / "rows.jsonl"),
            "data.text": "text",
            "data.label": "label",
            "data.length": 8,
            "data.holdout": 0,
            "train.steps": 1,
            "train.batch_size": 8,
            "train.learning_rate": 1e-9,
            "eval.report": False,
        }
    )
    finetune(config, str(tmp_path / "run"), pretrained=str(folder))
    said = capsys.readouterr().out
    unused = "pooling=mean, dense 7 (tanh), normalize, max_length=9, prompts query"
    assert said.count(f"parts of pretrained that are not used: {unused}\n") == 1
    found = load(tmp_path / "run").embed(["a b"])
    np.testing.assert_allclose(found, load(folder).embed(["a b"], "mean"), atol=1e-5)
