r"""BLEU of recurrent encoder–decoders by attention, all on one budget, one caption or three.

    python -m benchmarks.mechanisms.translation --output=runs/recurrent --captions=1 \
        --train=train.lc.norm.tok --test=test_2016_flickr.lc.norm.tok --source=en --target=de

Files are lower-cased and tokenised, a caption a line; of several tests, "a,b", all are read. Three
captions that follow each other are joined for longer sources. Words are the most frequent of the
training rows; batches are of similar length; decoding is greedy. Rate, dropout and batches are the
same for all, and not tuned by kind. Luong's steps are not told what those before attended to, for
models that are told learn slower at first. Bahdanau's model has GRUs, and fewer units for about as
many weights as the others with attention; what its logits are made of is as deep as theirs. "Wider"
has as many weights without attention, and deeper logits.
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
EDGES = {1: (9, 12, 16), 3: (36, 42)}  # of the lengths that are told apart

FLAGS = flags.FLAGS
flags.DEFINE_string("train", None, "Files without their ends.", required=True)
flags.DEFINE_list("test", None, "Others.", required=True)
flags.DEFINE_string("source", "en", "End of the files translated from.")
flags.DEFINE_string("target", "de", "End of the files translated to.")
flags.DEFINE_integer("captions", 1, "Of a row.", lower_bound=1)
flags.DEFINE_integer("steps", 1500, "Batches.")
flags.DEFINE_integer("batch_size", 64, "Captions of a batch.")
flags.DEFINE_float("rate", 2e-3, "Learning rate at the beginning.")
flags.DEFINE_float("dropout", 0.2, "Share dropped, see the models.")
flags.DEFINE_integer("words", 20_000, "Of each language; those that occur once are left out.")
flags.DEFINE_integer("units", 192, "Of each layer and embedding.")
flags.DEFINE_integer("window", 5, "Words on either side that local attention sees.")
flags.DEFINE_multi_enum("kinds", list(KINDS), list(KINDS), "Of these.")


def main():
    train = Captions([FLAGS.train])
    test = Captions(FLAGS.test)
    vocabularies = [Vocabulary(texts, FLAGS.words) for texts in (train.sources, train.targets)]
    rows = train.rows(vocabularies, 0.99)  # longer ones are cut
    edges = EDGES.get(FLAGS.captions, ())
    groups = {"BLEU": (0, 10**6)} | dict(zip(
        [*(f"to {edge} words" for edge in edges), "longer"],
        zip((0, *edges), (*edges, 10**6), strict=True), strict=True))
    counts = {name: sum(low < len(words) <= high for words in test.sources)
              for name, (low, high) in groups.items()}
    groups = [groups[name] for name, count in counts.items() if count]
    head(*(f"{name} ({count})" for name, count in counts.items() if count))
    settings = {"units": FLAGS.units, "window": FLAGS.window, "captions": FLAGS.captions,
                "dropout": FLAGS.dropout, "test": FLAGS.test}
    for kind in FLAGS.kinds:
        results(kind, settings, scores, partial(model_of, kind, vocabularies), {
            "rows": rows, "steps": FLAGS.steps, "rate": FLAGS.rate, "by_length": 50,
            "batch_size": max(FLAGS.batch_size // FLAGS.captions, 1)}, test, vocabularies, groups)


class Captions:
    """Lists of words of both sides, so many captions in a row."""

    def __init__(self, names):
        self.sources, self.targets = ([], [])
        for name in names:
            for end, texts in ((FLAGS.source, self.sources), (FLAGS.target, self.targets)):
                with open(f"{name}.{end}", encoding="utf-8") as file:
                    lines = [line.split() for line in file]
                count = FLAGS.captions
                texts += [sum(lines[i:i + count], [])
                          for i in range(0, len(lines) - count + 1, count)]

    def rows(self, vocabularies, share=1.0):
        """Rows of arrays, as long as that share of all."""
        import numpy as np

        sources, targets = ([vocabulary.ids(words) for words in texts] for vocabulary, texts in zip(
            vocabularies, (self.sources, self.targets), strict=True))
        lengths = [int(np.quantile(list(map(len, ids)), share)) for ids in (sources, targets)]
        source = padded(sources, lengths[0])
        label = padded([[*ids, END] for ids in targets], lengths[1] + 1)
        return {"token_ids": source, "padding_mask": np.minimum(source, 1), "label": label,
                "target_ids": padded([[BEGIN, *ids] for ids in targets], lengths[1] + 1),
                "sample_weight": (label != PADDING).astype("float32")}


def model_of(kind, vocabularies, seed):
    from keras_attn.models import BahdanauSeq2Seq, LuongSeq2Seq

    options = dict(KINDS[kind])
    units = int(FLAGS.units * options.pop("units", 1)) // 2 * 2  # a half in either direction
    sizes = {"vocabulary_size": len(vocabularies[0]), "units": units,
             "embedding_dim": FLAGS.units, "target_vocabulary_size": len(vocabularies[1]),
             "dropout": FLAGS.dropout, "seed": seed}
    if kind == "Bahdanau":
        return BahdanauSeq2Seq(readout_units=FLAGS.units, **sizes)
    if kind.startswith("local"):
        options["window"] = FLAGS.window
    return LuongSeq2Seq(input_feeding=False, **sizes, **options)


def scores(model, test, vocabularies, groups):
    """BLEU by length of the source."""
    import tensorflow as tf

    from keras_attn.generation import sample

    length = max(map(len, test.targets)) + 1

    def search(inputs):
        cache, memory = model.start_decoding(inputs, length)

        def step(ids, index, cache):
            logits, cache = model.decode(
                ids[:, None], index, cache, memory, inputs["padding_mask"])
            return logits[:, 0], cache

        begin = tf.fill(tf.shape(inputs["token_ids"])[:1], BEGIN)
        return sample(step, cache, begin, length, END, temperature=0)

    rows = test.rows(vocabularies)
    found = decoded(search, {name: rows[name] for name in ("token_ids", "padding_mask")},
                    vocabularies[1])
    return [bleu(test, found, *group) for group in groups]


def bleu(captions, hypotheses, low, high):
    """Of the sources of `low` + 1 to `high` words."""
    from keras_attn.tasks.translation.metrics import translation_scores

    kept = [i for i, source in enumerate(captions.sources) if low < len(source) <= high]
    texts = [[" ".join(lists[i]) for i in kept] for lists in (hypotheses, captions.targets)]
    return translation_scores(*texts, tokenize="none")["bleu"][0]


if __name__ == "__main__":
    run_command(main, __doc__)
