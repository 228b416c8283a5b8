"""GPT-2 of random weights beside other libraries: a training step, and tokens a second generated.

    make bench-env
    python -m benchmarks.gpt2 --check

Each library is tried in each of its modes, then the best of each is timed in turn. A step goes from
the batch to updated weights; texts have a cache and one length, whatever the tokens.
"""

import statistics
import sys

from absl import app, flags

from benchmarks.turns import (
    Contender,
    fastest_mode,
    in_turn,
    left_out,
    python_of,
    running,
    spread,
)

SIZES = {"tiny": (2, 128, 2, 32, 128), "mini": (4, 256, 4, 16, 128),
         "small": (12, 768, 12, 4, 128)}  # layers, width, heads; rows and length of a step
HOW = {"greedy": {}, "sampling": {"top_k": 50}, "beams": {"beams": 4}}
PROMPT = 32
OURS = "keras-attn"
XLA, COMPILE = ("", "xla", "bf16", "xla+bf16"), ("", "bf16", "compile", "compile+bf16")
LIBRARIES = {  # folder of the environment, module, modes of a step, of texts
    OURS: (None, "ours", XLA, ("",)),  # `generate` has no other
    "transformers": ("transformers", "hugging_face", COMPILE,
                     (*COMPILE, "static", "static+compile", "static+compile+bf16")),
    "KerasHub": ("keras-hub", "keras_hub", XLA, XLA),
}
TARGETS = {"step": 1.3, "texts": 2.0}

FLAGS = flags.FLAGS
flags.DEFINE_list("work", list(TARGETS), "Of step, texts.")
flags.DEFINE_list("sizes", ["mini", "small"], "Of tiny, mini, small.")
flags.DEFINE_list("how", list(HOW), "Texts are made: of greedy, sampling, beams.")
flags.DEFINE_integer("rows", 16, "Texts made at a time.")
flags.DEFINE_integer("tokens", 64, "Added to each.")
flags.DEFINE_list("modes", None, "Try only these, of plain, xla, bf16, xla+bf16, compile, …")
flags.DEFINE_string("environments", ".bench-env", "Folder that `make bench-env` made.")
flags.DEFINE_integer("turns", 7, "How often each is timed.")
flags.DEFINE_float("seconds", 4.0, "Of one timing, about.")
flags.DEFINE_bool("check", False, f"Exit with 1 if ours is not {TARGETS['step']} times as fast as "
                  f"the faster other in a step, {TARGETS['texts']} times in texts, or the flags "
                  "leave something out.")


def main(_):
    missed = []
    for size in FLAGS.sizes:
        layers, width, heads, rows, length = SIZES[size]
        shape = {"layers": layers, "width": width, "heads": heads, "tokens": 0, "beams": 1,
                 "top_k": 0}
        said = f"{size}, {layers} layers of {width}"
        if "step" in FLAGS.work:
            missed += compare(f"{said}: a step, {rows} rows of {length} tokens", "step",
                              {**shape, "rows": rows, "length": length}, rows * length)
        for how in FLAGS.how if "texts" in FLAGS.work else ():
            missed += compare(
                f"{said}: {FLAGS.tokens} tokens after {PROMPT}, {FLAGS.rows} rows, {how}", "texts",
                {**shape, **HOW[how], "rows": FLAGS.rows, "length": PROMPT,
                 "tokens": FLAGS.tokens}, FLAGS.rows * FLAGS.tokens)
    if FLAGS.check:
        missed += ["--modes leaves out some"] if FLAGS.modes else []
        missed += left_out(FLAGS, sizes=["mini", "small"], work=list(TARGETS), how=list(HOW))
    if missed:
        print("below the target:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def compare(said, work, options, tokens):
    """Prints a table; returns which target it misses, if one, in words."""
    modes = {name: best_mode(name, options) for name in LIBRARIES}
    modes = {name: mode for name, mode in modes.items() if mode is not None}
    with running([start(name, mode, options) for name, mode in modes.items()]) as contenders:
        found = in_turn(contenders, FLAGS.turns, FLAGS.seconds)
    print(f"\n{said}")
    for name, times in found.items():
        print(f"{name + ' ' + (modes[name] or 'fp32'):32}"
              f"{spread([tokens / t for t in times]):>32} tokens/s", flush=True)
    others = [name for name in found if name != OURS]
    absent = [f"{said}: not measured: {name}" for name in LIBRARIES if name not in found]
    if OURS not in found or not others:
        return absent
    best = min(others, key=lambda name: statistics.median(found[name]))
    ratios = [b / a for a, b in zip(found[OURS], found[best], strict=True)]
    print(f"{OURS} is {spread(ratios, 2)} times as fast as {best}", flush=True)
    if (ratio := statistics.median(ratios)) < TARGETS[work]:
        absent.append(f"{said}: {ratio:.2f} times {best}")
    return absent


def best_mode(name, options):
    """The fastest mode of a library, or None if it is not installed or none works."""
    folder, _, *modes = LIBRARIES[name]
    if not python_of(name, FLAGS.environments, folder):
        return None
    modes = [mode for mode in modes[bool(options["tokens"])]
             if FLAGS.modes is None or (mode or "plain") in FLAGS.modes]
    return fastest_mode(modes, lambda mode: start(name, mode, options), FLAGS.seconds)


def start(name, mode, options):
    folder, module, *_ = LIBRARIES[name]
    switches = {switch: switch in mode.split("+")
                for switch in ("xla", "bf16", "compile", "static")}
    return Contender(name, python_of(name, FLAGS.environments, folder),
                     f"benchmarks.contenders.gpt2.{module}", {**options, **switches})


if __name__ == "__main__":
    app.run(main)
