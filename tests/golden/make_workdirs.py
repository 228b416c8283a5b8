"""Trains a small workdir of every kind of run and records its predictions.

    python tests/golden/make_workdirs.py OUTPUT
    python tests/golden/make_workdirs.py OUTPUT --compare=OTHER

OUTPUT gets `data/`, a workdir per run and `expected.json`: for each run, the SHA-256 of its
weights, its predictions, and the training losses of two further steps. The second form also
compares OUTPUT with an earlier OTHER from the same machine: weights must be bitwise identical.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # this tree, not an installed one

STEPS, MORE = 50, 2
SHAPE = {
    "model.num_layers": 1,
    "model.hidden_dim": 8,
    "model.num_heads": 2,
    "model.intermediate_dim": 16,
}
CONSTANT = {
    "train.schedule": "constant",
    "train.warmup_fraction": 0.0,
    "train.batch_size": 8,
    "train.learning_rate": 0.01,
    "train.accumulate": 1,
    "train.seed": 1,
    "checkpoint.keep": 1,
}
LANGUAGE = {
    **CONSTANT,
    **SHAPE,
    "data.train": "data/train.txt",
    "data.validation": "data/valid.txt",
    "data.length": 24,
    "model.max_length": 32,
}
LABELLED = {**CONSTANT, "data.holdout": 0.25, "data.length": 24, "eval.report": False}
TABLE = {**LABELLED, "data.text": "text"}

# Name: module, config, pretrained run, config fields.
RUNS = {
    "bert": ("pretrain", "bert_tiny", None, {**LANGUAGE, "data.vocab_size": 120}),
    "gpt2": ("pretrain", "gpt2_small", None, {**LANGUAGE, "data.vocab_size": 280}),
    "xlnet": (
        "pretrain",
        "xlnet_small",
        None,
        {
            **{name: value for name, value in LANGUAGE.items() if name != "model.max_length"},
            "data.vocab_size": 60,
        },
    ),
    "translation": (
        "finetune",
        "multi30k",
        None,
        {
            **{name: value for name, value in CONSTANT.items() if name != "train.batch_size"},
            **SHAPE,
            "data.train.source": "data/train.en",
            "data.train.target": "data/train.de",
            "data.validation.source": "data/valid.en",
            "data.validation.target": "data/valid.de",
            "data.vocab_size": 60,
            "data.length": 32,
            "train.batch_tokens": 128,
        },
    ),
    "bert_classifier": (
        "finetune",
        "classify",
        "bert",
        {**TABLE, "data.train": "data/rows.csv", "data.label": "animal"},
    ),
    "gpt2_classifier": (
        "finetune",
        "classify",
        "gpt2",
        {**TABLE, "data.train": "data/rows.csv", "data.label": "animal"},
    ),
    "xlnet_classifier": (
        "finetune",
        "classify",
        "xlnet",
        {**TABLE, "data.train": "data/rows.csv", "data.label": "animal"},
    ),
    "multilabel": (
        "finetune",
        "classify",
        "bert",
        {**TABLE, "data.train": "data/rows.csv", "data.label": "all", "data.task": "multilabel"},
    ),
    "regression": (
        "finetune",
        "classify",
        "bert",
        {**TABLE, "data.train": "data/rows.csv", "data.label": "score", "data.task": "regression"},
    ),
    "reading": (
        "finetune",
        "squad",
        "bert",
        {**LABELLED, "data.train": "data/questions.json", "data.max_question": 10},
    ),
}
ENGLISH = {
    "the": "die",
    "a": "eine",
    "red": "rote",
    "big": "große",
    "cat": "Katze",
    "duck": "Ente",
    "mouse": "Maus",
    "sees": "sieht",
    "hears": "hört",
    "and": "und",
}


def sentence(draw):
    animals = [draw.choice(("cat", "duck", "mouse")) for _ in range(2)]
    parts = [f"{draw.choice(('the', 'a'))} {draw.choice(('red', 'big'))} {one}" for one in animals]
    return f"{parts[0]} {draw.choice(('sees', 'hears', 'and'))} {parts[1]}", animals


def write_data(folder):
    folder.mkdir(parents=True)
    for name, count, seed in (("train", 120, 0), ("valid", 20, 1)):
        draw = random.Random(seed)
        texts = [sentence(draw)[0] for _ in range(count)]
        documents = ["\n".join(texts[i : i + 4]) for i in range(0, count, 4)]
        (folder / f"{name}.txt").write_text("\n\n".join(documents) + "\n")
        (folder / f"{name}.en").write_text("".join(f"{text}\n" for text in texts))
        (folder / f"{name}.de").write_text(
            "".join(" ".join(ENGLISH[word] for word in text.split()) + "\n" for text in texts)
        )
    draw, rows, articles = random.Random(2), ["text,animal,all,score"], []
    for number in range(80):
        text, animals = sentence(draw)
        labels = sorted(set(animals))
        rows.append(f'{text},{animals[0]},"{",".join(labels)}",{text.count("a") / 2}')
        articles.append(
            {
                "context": text,
                "qas": [
                    {
                        "id": str(number),
                        "question": "which animal comes first",
                        "answers": [{"text": animals[0], "answer_start": text.index(animals[0])}],
                    }
                ],
            }
        )
    (folder / "rows.csv").write_text("\n".join(rows) + "\n")
    (folder / "questions.json").write_text(
        json.dumps({"version": "1.1", "data": [{"title": "animals", "paragraphs": articles[:40]}]})
    )


def train(folder, name, workdir, steps):
    module, config, pretrained, fields = RUNS[name]
    command = [
        sys.executable,
        "-m",
        module,
        f"--config={config}",
        f"--workdir={workdir}",
        f"--config.train.steps={steps}",
        *(f"--config.{field}={value}" for field, value in fields.items()),
    ]
    if pretrained:
        command.append(f"--pretrained={pretrained}")
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return json.loads((folder / workdir / "results.json").read_text())["weights_sha256"]


def predict(workdir):
    """Returns predictions of the model of a workdir as plain values; None for pretrained XLNet."""
    import keras_attn

    if workdir.name == "xlnet":
        return None
    model, name = keras_attn.load(str(workdir)), workdir.name
    text = "the big duck sees a red cat"
    if name == "translation":
        return model.translate([text])
    if name == "reading":
        return model.answer("which animal comes first", text)
    if name == "gpt2":
        return model.generate([text], max_tokens=8, temperature=0)
    if name == "bert":
        return model.embed([text]).tolist()
    return model.predict([text, "a red mouse and the big mouse"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--compare", type=pathlib.Path)
    arguments = parser.parse_args()
    folder, expected = arguments.output.resolve(), {}
    write_data(folder / "data")
    for name in RUNS:
        found = {
            "weights_sha256": train(folder, name, name, STEPS),
            "predictions": predict(folder / name),
        }
        train(folder, name, "longer", STEPS + MORE)
        records = (folder / "longer" / "metrics.jsonl").read_text().splitlines()
        found["losses"] = [
            record["loss"]
            for record in map(json.loads, records)
            if record.get("step", 0) > STEPS and "loss" in record
        ]
        expected[name] = found
        shutil.rmtree(folder / "longer")
        shutil.rmtree(folder / name / "events", ignore_errors=True)
        print(f"{name}: {found['weights_sha256']}", flush=True)
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
    if arguments.compare:
        other = json.loads((arguments.compare / "expected.json").read_text())
        different = [name for name in RUNS if other[name] != expected[name]]
        sys.exit(f"different: {', '.join(different)}" if different else None)


if __name__ == "__main__":
    main()
