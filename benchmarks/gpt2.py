"""GPT-2 of random weights beside other libraries: a training step, and tokens a second generated.

    make bench-env
    python -m benchmarks.gpt2 --check

Each library is tried in each of its modes, then the best of each is timed in turn. A step goes from
the batch to updated weights; texts have a cache and one length, whatever the tokens.
"""

import sys

from absl import app, flags

from benchmarks.turns import Library, compare_libraries, left_out

SIZES = {"tiny": (2, 128, 2, 32, 128), "mini": (4, 256, 4, 16, 128),
         "small": (12, 768, 12, 4, 128)}  # layers, width, heads; rows and length of a step
HOW = {"greedy": {}, "sampling": {"top_k": 50}, "beams": {"beams": 4}}
PROMPT = 32
OURS = "keras-attn"
XLA, COMPILE = ("", "xla", "bf16", "xla+bf16"), ("", "bf16", "compile", "compile+bf16")
STATIC = "static", "static+compile", "static+compile+bf16"
MODULES = "benchmarks.contenders.gpt2."
LIBRARIES = {  # by the work
    work: [Library(OURS, None, f"{MODULES}ours", own),
           Library("transformers", "transformers", f"{MODULES}hugging_face", theirs),
           Library("KerasHub", "keras-hub", f"{MODULES}keras_hub", XLA)]
    for work, own, theirs in (("step", XLA, COMPILE),
                              ("texts", ("", "bf16"), COMPILE + STATIC))}
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
    """Prints a table; returns what misses the target, in words."""
    libraries = LIBRARIES[work]
    others = [one.name for one in libraries if one.name != OURS]
    return compare_libraries(said, libraries, OURS, others, options, tokens, TARGETS[work], FLAGS)


if __name__ == "__main__":
    app.run(main)
