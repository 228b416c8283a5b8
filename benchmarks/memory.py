"""Peak memory and time of a training step, with and without memory-saving options (Linux).

    make bench-env
    python -m benchmarks.memory
    python -m benchmarks.memory --calibrate

The first command compares GPT-2 small (8 sequences of 1,024 tokens) and BERT-base (32 of 512) with
transformers, with and without gradient checkpointing. The second compares the peaks of small and
medium models with the estimate by which runs choose `train.accumulate`. Peaks are those of the
process (VmHWM) minus what it held before the model was created; one process runs at a time.
"""

import statistics
import sys

from absl import app, flags

from benchmarks.interleaved import Contender, python_of, running

BASE = {
    "xla": False,
    "bf16": False,
    "remat": False,
    "blocks": True,
    "dropout": 0.0,
    "accumulate": 1,
    "masked": 0,
}
MODELS = {
    "gpt2_small": {
        "family": "gpt2",
        "layers": 12,
        "hidden_dim": 768,
        "heads": 12,
        "rows": 8,
        "length": 1024,
        "vocabulary": 50257,
    },
    "bert_base": {
        "family": "bert",
        "layers": 12,
        "hidden_dim": 768,
        "heads": 12,
        "rows": 32,
        "length": 512,
        "vocabulary": 30522,
        "masked": 77,
    },
}
VARIANTS = {  # name: library, options
    "all logits": ("keras-attn", {"blocks": False}),
    "logits in blocks": ("keras-attn", {}),
    "logits in blocks + remat": ("keras-attn", {"remat": True}),
    "transformers": ("transformers", {}),
    "transformers + checkpointing": ("transformers", {"remat": True}),
}
MODULES = {
    "keras-attn": (None, "benchmarks.contenders.memory.ours"),
    "transformers": ("transformers", "benchmarks.contenders.memory.hugging_face"),
}

MEDIUM = {"layers": 4, "hidden_dim": 256, "heads": 4, "vocabulary": 8000}
WIDE = {"layers": 8, "hidden_dim": 512, "heads": 8, "vocabulary": 32000, "length": 128}
CALIBRATION = [
    {"family": family, **MEDIUM, "rows": rows, "length": length, **more}
    for family, rows, length, more in (
        ("gpt2", 16, 128, {}),
        ("gpt2", 64, 128, {}),
        ("gpt2", 64, 128, {"layers": 2}),
        ("gpt2", 16, 512, {}),
        ("gpt2", 16, 512, {"dropout": 0.1}),
        ("gpt2", 16, 512, {"remat": True}),
        ("gpt2", 16, 512, {"bf16": True}),
        ("gpt2", 2, 128, WIDE),
        ("gpt2", 16, 512, {"xla": True}),
        ("gpt2", 16, 512, {"accumulate": 4}),
        ("gpt2", 32, 512, {"accumulate": 16}),
        ("gpt2", 16, 512, {"remat": True, "xla": True}),
        ("gpt2", 8, 128, {**WIDE, "accumulate": 4}),
        ("bert", 16, 512, {"masked": 20}),
        ("bert", 64, 128, {"masked": 20, "dropout": 0.1}),
        ("xlnet", 16, 256, {"masked": 42}),
        ("xlnet", 16, 256, {"masked": 42, "layers": 2}),
        ("xlnet", 32, 128, {"masked": 20}),
        ("xlnet", 16, 256, {"masked": 42, "dropout": 0.1}),
        ("transformer", 16, 256, {}),
        ("transformer", 32, 128, {}),
        ("transformer", 16, 256, {"layers": 2}),
    )
]
KINDS = {
    "bert": "pretraining",
    "gpt2": "language_modeling",
    "xlnet": "permutation_modeling",
    "transformer": "translation",
}

flags.DEFINE_list("models", list(MODELS), "Models: gpt2_small, bert_base.")
flags.DEFINE_list("ways", list(VARIANTS), f"Variants, the rows: {', '.join(VARIANTS)}.")
flags.DEFINE_bool("xla", False, "Compile keras-attn with XLA.")
flags.DEFINE_bool("bf16", False, "Use mixed precision.")
flags.DEFINE_bool("calibrate", False, "Compare peaks with estimates.")
flags.DEFINE_string("environments", ".bench-env", "Folder of the environments of `make bench-env`.")
flags.DEFINE_integer("turns", 3, "Number of measured steps.")


def main(_):
    if flags.FLAGS.calibrate:
        calibrate()
        return
    for model in flags.FLAGS.models:
        options = {**BASE, **MODELS[model], "xla": flags.FLAGS.xla, "bf16": flags.FLAGS.bf16}
        print(f"\n{model}: {options['rows']} sequences of {options['length']} tokens")
        for variant in flags.FLAGS.ways:
            library, more = VARIANTS[variant]
            report = measure(library, {**options, **more}, flags.FLAGS.turns)
            if report:
                peak, seconds = report
                print(f"{variant:32}{peak / 1e9:8.2f} GB{seconds:8.2f} s/step", flush=True)


def measure(library, options, turns):
    """Returns (peak bytes, median seconds per step); None if the library is not installed."""
    folder, module = MODULES[library]
    python = python_of(library, flags.FLAGS.environments, folder)
    if not python:
        return None
    with running([Contender(library, python, module, options)]) as (contender,):
        reports = [contender.measure(1) for _ in range(turns)]
    return (
        max(report["peak"] for report in reports),
        statistics.median(report["seconds"] for report in reports),
    )


def calibrate():
    """Prints the peaks, the estimates and their ratio."""
    for own in CALIBRATION:
        options = {**BASE, **own}
        peak, _ = measure("keras-attn", options, 1)
        estimated = estimate(options)
        settings = ", ".join(f"{name} {value}" for name, value in own.items() if name != "family")
        print(
            f"| {own['family']} | {settings} | {peak / 1e6:,.0f} | {estimated / 1e6:,.0f} | "
            f"{estimated / peak:.2f} |",
            flush=True,
        )


def estimate(options):
    """Returns the estimated bytes of a training step with the options of a contender."""
    from keras_attn.defaults import default_config
    from keras_attn.registry import FAMILIES, TASKS, family_and_task
    from keras_attn.runs.step_memory import step_size

    kind, length = KINDS[options["family"]], options["length"]
    family, task = family_and_task(kind)
    config = default_config(task, family)
    config.data.length = length
    if kind == "pretraining":
        config.data.max_predictions = options["masked"]
    if kind == "permutation_modeling":
        config.data.predicted_fraction = options["masked"] / length
    longest = {"max_length": length} if kind in ("pretraining", "language_modeling") else {}
    attention = 0.0 if kind == "translation" else options["dropout"]
    size = step_size(
        TASKS[task],
        FAMILIES[family],
        {
            "vocabulary_size": options["vocabulary"],
            "num_layers": options["layers"],
            "hidden_dim": options["hidden_dim"],
            "num_heads": options["heads"],
            "dropout": options["dropout"],
            "attention_dropout": attention,
            **longest,
        },
        config,
    )
    accumulate = options["accumulate"]
    return size.bytes(
        options["rows"] // accumulate,
        accumulate=accumulate,
        remat=options["remat"],
        half=options["bf16"],
        jit=options["xla"],
    )


if __name__ == "__main__":
    sys.exit(app.run(main))
