r"""BLEU of recurrent encoder-decoders by attention mechanism, with the same budget.

    python -m benchmarks.mechanisms.translation --output=runs/recurrent --captions=1 \
        --train=train.lc.norm.tok --test=test_2016_flickr.lc.norm.tok --source=en --target=de

Files are lowercased and tokenized, with a caption per line; several test sets are given as "a,b".
With --captions=3, three successive captions are joined into longer sources. The vocabulary has the
most frequent words of the training set; batches have similar lengths; decoding is greedy. Learning
rate, dropout rate and batch size are the same for all models and not tuned. Luong's models have no
input feeding, with which they learn slower at first. Bahdanau's model has GRUs, fewer units, for
about as many weights as the others with attention, and a readout as large as theirs. "Wider" has as
many weights without attention, and a larger readout.
"""

from functools import partial

from absl import flags

from benchmarks.mechanisms.runs import (
    BEGIN,
    END,
    PADDING,
    Vocabulary,
    decoded,
    head,
    padded,
    results,
)
from keras_attn.cli.command_line import run_command

KINDS = {
    "no attention": {"attention": None},
    "no attention, wider": {"attention": None, "units": 1.145},
    "Bahdanau": {"units": 0.58},
    "Luong, dot": {"score": "dot"},
    "Luong, general": {"score": "bilinear"},
    "Luong, concat": {"score": "concat"},
    "local, monotonic": {"attention": "local_monotonic"},
    "local, predictive": {"attention": "local_predictive"},
    "hard": {"attention": "hard"},
}
EDGES = {1: (9, 12, 16), 3: (36, 42)}  # bounds of the groups of source lengths

FLAGS = flags.FLAGS
flags.DEFINE_string("train", None, "Training files without the language suffix.", required=True)
flags.DEFINE_list("test", None, "Test files without the language suffix.", required=True)
flags.DEFINE_string("source", "en", "Suffix of the source files.")
flags.DEFINE_string("target", "de", "Suffix of the target files.")
flags.DEFINE_integer("captions", 1, "Captions per example.", lower_bound=1)
flags.DEFINE_integer("steps", 1500, "Training steps.")
flags.DEFINE_integer("batch_size", 64, "Captions per batch.")
flags.DEFINE_float("rate", 2e-3, "Initial learning rate.")
flags.DEFINE_float("dropout", 0.2, "Dropout rate.")
flags.DEFINE_integer(
    "words", 20_000, "Vocabulary size of each language; words that occur once are excluded."
)
flags.DEFINE_integer("units", 192, "Units of each layer, and embedding size.")
flags.DEFINE_integer("window", 5, "Window size of local attention: words on either side.")


def main():
    train = Captions([FLAGS.train])
    test = Captions(FLAGS.test)
    vocabularies = [Vocabulary(texts, FLAGS.words) for texts in (train.sources, train.targets)]
    rows = train.rows(vocabularies, 0.99)  # the longest 1 % are truncated
    edges = EDGES.get(FLAGS.captions, ())
    groups = {"BLEU": (0, 10**6)} | dict(
        zip(
            [*(f"up to {edge} words" for edge in edges), "longer"],
            zip((0, *edges), (*edges, 10**6), strict=True),
            strict=True,
        )
    )
    counts = {
        name: sum(low < len(words) <= high for words in test.sources)
        for name, (low, high) in groups.items()
    }
    groups = [groups[name] for name, count in counts.items() if count]
    head(*(f"{name} ({count})" for name, count in counts.items() if count))
    settings = {
        "units": FLAGS.units,
        "window": FLAGS.window,
        "captions": FLAGS.captions,
        "dropout": FLAGS.dropout,
        "test": FLAGS.test,
    }
    for kind in KINDS:
        results(
            kind,
            settings,
            scores,
            partial(model_of, kind, vocabularies),
            {
                "rows": rows,
                "steps": FLAGS.steps,
                "rate": FLAGS.rate,
                "by_length": 50,
                "batch_size": max(FLAGS.batch_size // FLAGS.captions, 1),
            },
            test,
            vocabularies,
            groups,
        )


class Captions:
    """Sources and targets as lists of words, with --captions captions per example."""

    def __init__(self, names):
        self.sources, self.targets = ([], [])
        for name in names:
            for suffix, texts in ((FLAGS.source, self.sources), (FLAGS.target, self.targets)):
                with open(f"{name}.{suffix}", encoding="utf-8") as file:
                    lines = [line.split() for line in file]
                count = FLAGS.captions
                texts += [
                    sum(lines[i : i + count], []) for i in range(0, len(lines) - count + 1, count)
                ]

    def rows(self, vocabularies, fraction=1.0):
        """Returns arrays, long enough for that fraction of the examples."""
        import numpy as np

        sources, targets = (
            [vocabulary.ids(words) for words in texts]
            for vocabulary, texts in zip(vocabularies, (self.sources, self.targets), strict=True)
        )
        lengths = [int(np.quantile(list(map(len, ids)), fraction)) for ids in (sources, targets)]
        source = padded(sources, lengths[0])
        label = padded([[*ids, END] for ids in targets], lengths[1] + 1)
        return {
            "token_ids": source,
            "padding_mask": np.minimum(source, 1),
            "label": label,
            "target_ids": padded([[BEGIN, *ids] for ids in targets], lengths[1] + 1),
            "sample_weight": (label != PADDING).astype("float32"),
        }


def model_of(kind, vocabularies, seed):
    from keras_attn.models import BahdanauSeq2Seq, LuongSeq2Seq

    options = dict(KINDS[kind])
    units = int(FLAGS.units * options.pop("units", 1)) // 2 * 2  # even: half of them per direction
    sizes = {
        "vocabulary_size": len(vocabularies[0]),
        "units": units,
        "embedding_dim": FLAGS.units,
        "target_vocabulary_size": len(vocabularies[1]),
        "dropout": FLAGS.dropout,
        "seed": seed,
    }
    if kind == "Bahdanau":
        return BahdanauSeq2Seq(readout_units=FLAGS.units, **sizes)
    if kind.startswith("local"):
        options["window"] = FLAGS.window
    return LuongSeq2Seq(input_feeding=False, **sizes, **options)


def scores(model, test, vocabularies, groups):
    """Returns the BLEU of each group of source lengths."""
    import tensorflow as tf

    from keras_attn.generation import sample

    length = max(map(len, test.targets)) + 1

    def search(inputs):
        cache, memory = model.start_decoding(inputs, length)

        def step(ids, index, cache):
            logits, cache = model.decode(ids[:, None], index, cache, memory, inputs["padding_mask"])
            return logits[:, 0], cache

        begin = tf.fill(tf.shape(inputs["token_ids"])[:1], BEGIN)
        return sample(step, cache, begin, length, END, temperature=0)

    rows = test.rows(vocabularies)
    found = decoded(
        search, {name: rows[name] for name in ("token_ids", "padding_mask")}, vocabularies[1]
    )
    return [bleu(test, found, *group) for group in groups]


def bleu(captions, hypotheses, low, high):
    """Returns the BLEU of the sources of `low` + 1 to `high` words."""
    from keras_attn.tasks.translation.metrics import translation_scores

    selected = [i for i, source in enumerate(captions.sources) if low < len(source) <= high]
    texts = [[" ".join(lists[i]) for i in selected] for lists in (hypotheses, captions.targets)]
    return translation_scores(*texts, tokenize="none")["bleu"][0]


if __name__ == "__main__":
    run_command(main, __doc__)
