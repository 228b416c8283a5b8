"""Training step and generation of a randomly initialized GPT-2, compared with other libraries.

    make bench-env
    python -m benchmarks.gpt2 --check

Each library is tried in each of its modes; then the best modes are measured in turn. A training
step goes from the batch to updated weights. Generation uses a key-value cache and a fixed length,
whatever the tokens.
"""

import sys

from absl import app, flags

from benchmarks.interleaved import Library, compare_libraries, left_out

SIZES = {
    "tiny": (2, 128, 2, 32, 128),
    "mini": (4, 256, 4, 16, 128),
    "small": (12, 768, 12, 4, 128),
}  # layers, hidden_dim, heads, batch size, length
HOW = {"greedy": {}, "sampling": {"top_k": 50}, "beams": {"beams": 4}}
PROMPT = 32
OURS = "keras-attn"
XLA, COMPILE = ("", "xla", "bf16", "xla+bf16"), ("", "bf16", "compile", "compile+bf16")
STATIC = "static", "static+compile", "static+compile+bf16"
MODULES = "benchmarks.contenders.gpt2."
LIBRARIES = {  # by kind of work
    work: [
        Library(OURS, None, f"{MODULES}ours", own),
        Library("transformers", "transformers", f"{MODULES}hugging_face", theirs),
        Library("KerasHub", "keras-hub", f"{MODULES}keras_hub", XLA),
    ]
    for work, own, theirs in (("step", XLA, COMPILE), ("texts", ("", "bf16"), COMPILE + STATIC))
}
TARGETS = {"step": 1.3, "texts": 2.0}

FLAGS = flags.FLAGS
flags.DEFINE_list("work", list(TARGETS), "Kinds of work: step, texts.")
flags.DEFINE_list("sizes", ["mini", "small"], "Model sizes: tiny, mini, small.")
flags.DEFINE_list("how", list(HOW), "Decoding methods of texts: greedy, sampling, beams.")
flags.DEFINE_integer("rows", 16, "Batch size of texts.")
flags.DEFINE_integer("tokens", 64, "New tokens per text.")
flags.DEFINE_list("modes", None, "Try only these modes: plain, xla, bf16, xla+bf16, compile, …")
flags.DEFINE_string("environments", ".bench-env", "Folder of the environments of `make bench-env`.")
flags.DEFINE_integer("turns", 7, "Number of measurements of each contender.")
flags.DEFINE_float("seconds", 4.0, "Approximate seconds per measurement.")
flags.DEFINE_bool(
    "check",
    False,
    "Exit with 1 if the speedup over the faster baseline is below "
    f"{TARGETS['step']} (step) or {TARGETS['texts']} (texts), or the flags leave "
    "something out.",
)


def main(_):
    missed = []
    for size in FLAGS.sizes:
        layers, hidden_dim, heads, rows, length = SIZES[size]
        shape = {
            "layers": layers,
            "hidden_dim": hidden_dim,
            "heads": heads,
            "tokens": 0,
            "beams": 1,
            "top_k": 0,
        }
        title = f"{size}, {layers} layers, hidden size {hidden_dim}"
        if "step" in FLAGS.work:
            missed += compare(
                f"{title}: step, {rows} sequences of {length} tokens",
                "step",
                {**shape, "rows": rows, "length": length},
                rows * length,
            )
        for how in FLAGS.how if "texts" in FLAGS.work else ():
            missed += compare(
                f"{title}: {FLAGS.tokens} tokens after {PROMPT}, {FLAGS.rows} texts, {how}",
                "texts",
                {**shape, **HOW[how], "rows": FLAGS.rows, "length": PROMPT, "tokens": FLAGS.tokens},
                FLAGS.rows * FLAGS.tokens,
            )
    if FLAGS.check:
        missed += ["--modes leaves out some"] if FLAGS.modes else []
        missed += left_out(FLAGS, sizes=["mini", "small"], work=list(TARGETS), how=list(HOW))
    if missed:
        print("missed targets:", "; ".join(missed))
    sys.exit(bool(missed and FLAGS.check))


def compare(title, work, options, tokens):
    """Prints a table and returns descriptions of the missed targets."""
    libraries = LIBRARIES[work]
    others = [one.name for one in libraries if one.name != OURS]
    return compare_libraries(title, libraries, OURS, others, options, tokens, TARGETS[work], FLAGS)


if __name__ == "__main__":
    app.run(main)
