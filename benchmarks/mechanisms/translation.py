r"""BLEU of recurrent encoder–decoders by attention, all on one budget, one caption or three.

    python -m benchmarks.mechanisms.translation --output=runs/recurrent --captions=1 \
        --train=train.lc.norm.tok --validation=test_2016_flickr.lc.norm.tok --source=en --target=de

Files are lower-cased and tokenised, a caption a line; three captions that follow each other are
joined for longer sources. Words are those of the training rows, two at least; decoding is greedy.
"""

from absl import flags

from benchmarks.mechanisms.runs import (
    BEGIN,
    END,
    PADDING,
    Vocabulary,
    fit,
    padded,
    results,
    told,
)
from keras_attn.jobs.command_line import run_command

KINDS = {
    "no attention": {"attention": None},
    "Bahdanau": None,
    "Luong, dot": {"score": "dot"},
    "Luong, general": {"score": "bilinear"},
    "Luong, concat": {"score": "concat"},
    "local, monotonic": {"attention": "local_monotonic"},
    "local, predictive": {"attention": "local_predictive"},
    "hard": {"attention": "hard"},
}
EDGES = {1: (9, 12, 16), 3: (30, 36, 42)}  # of the lengths that are told apart

FLAGS = flags.FLAGS
flags.DEFINE_string("train", None, "Files without their ends.", required=True)
flags.DEFINE_string("validation", None, "Others.", required=True)
flags.DEFINE_string("source", "en", "End of the files translated from.")
flags.DEFINE_string("target", "de", "End of the files translated to.")
flags.DEFINE_integer("captions", 1, "Of a row.", lower_bound=1)
flags.DEFINE_integer("steps", 1500, "Batches.")
flags.DEFINE_integer("batch_size", 64, "Captions of a batch.")
flags.DEFINE_integer("units", 192, "Of each layer and embedding.")
flags.DEFINE_integer("window", 5, "Words on either side that local attention sees.")
flags.DEFINE_multi_enum("kinds", list(KINDS), list(KINDS), "Of these.")


def main():
    edges = EDGES.get(FLAGS.captions, ())
    heads = [f"to {edge} words" for edge in edges] + ["longer"]
    print(f"| | BLEU | {' | '.join(heads)} |\n|---|---|{'---|' * len(heads)}")
    train, test = (Captions(name, FLAGS.captions) for name in (FLAGS.train, FLAGS.validation))
    vocabularies = [Vocabulary(texts) for texts in (train.sources, train.targets)]
    settings = {name: getattr(FLAGS, name) for name in ("steps", "batch_size", "units", "window")}
    for kind in FLAGS.kinds:
        found = results(f"{kind.replace(', ', '-')}-{FLAGS.captions}", settings, lambda seed: run(
            seed, kind, vocabularies, train, test, edges))  # noqa: B023
        cells = [told(scores, 1.0) for scores in zip(*found, strict=True)]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


class Captions:
    """Lists of words of both sides, so many captions in a row."""

    def __init__(self, name, count):
        sides = []
        for end in (FLAGS.source, FLAGS.target):
            with open(f"{name}.{end}", encoding="utf-8") as file:
                lines = [line.split() for line in file]
            sides.append([sum(lines[i:i + count], [])
                          for i in range(0, len(lines) - count + 1, count)])
        self.sources, self.targets = sides

    def rows(self, vocabularies):
        import numpy as np

        sources, targets = ([vocabulary.ids(words) for words in texts] for vocabulary, texts in zip(
            vocabularies, (self.sources, self.targets), strict=True))
        # What is longer than nearly all is cut.
        lengths = [int(np.quantile(list(map(len, ids)), 0.99)) for ids in (sources, targets)]
        source = padded(sources, lengths[0])
        label = padded([[*ids, END] for ids in targets], lengths[1])
        target = padded([[BEGIN, *ids] for ids in targets], lengths[1])
        mask = (label != PADDING).astype("float32")
        return {"token_ids": source, "padding_mask": np.minimum(source, 1), "target_ids": target,
                "label": label, "sample_weight": mask}


def run(seed, kind, vocabularies, train, test, edges):
    """BLEU of all and by length of the source."""
    from keras_attn.models import BahdanauSeq2Seq, LuongSeq2Seq

    options = KINDS[kind]
    sizes = {"embedding_dim": FLAGS.units, "target_vocabulary_size": len(vocabularies[1]),
             "dropout": 0.2, "seed": seed}
    if options is None:
        model = BahdanauSeq2Seq(len(vocabularies[0]), FLAGS.units, **sizes)
    else:
        model = LuongSeq2Seq(len(vocabularies[0]), FLAGS.units, window=FLAGS.window, **sizes,
                             **options)
    fit(model, train.rows(vocabularies), steps=FLAGS.steps,
        batch_size=max(FLAGS.batch_size // FLAGS.captions, 1), rate=2e-3, seed=seed)
    hypotheses = translate(model, test, vocabularies)
    groups = [(0, *edges)[i:i + 1] + (*edges, 10**6)[i:i + 1] for i in range(len(edges) + 1)]
    return [bleu(test, hypotheses, 0, 10**6)] + [
        bleu(test, hypotheses, low, high) for low, high in groups]


def translate(model, captions, vocabularies):
    """Lists of words, the likeliest one by one."""
    import numpy as np
    import tensorflow as tf

    from keras_attn.generation import sample

    rows, length = captions.rows(vocabularies), max(map(len, captions.targets)) + 1

    @tf.function(reduce_retracing=True)
    def search(token_ids, padding_mask):
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        cache, memory = model.start_decoding(inputs, length)

        def step(ids, index, cache):
            logits, cache = model.decode(ids[:, None], index, cache, memory, padding_mask)
            return logits[:, 0], cache

        begin = tf.fill(tf.shape(token_ids)[:1], BEGIN)
        found = sample(step, cache, begin, length, END, temperature=0)
        return found["token_ids"], found["lengths"]

    words = ["", "<unk>", "", "", *vocabularies[1].words]
    texts = []
    for i in range(0, len(rows["token_ids"]), 100):
        ids, lengths = search(*(tf.constant(rows[name][i:i + 100])
                                for name in ("token_ids", "padding_mask")))
        texts += [[words[number] for number in line[:length] if number != END]
                  for line, length in zip(np.asarray(ids), np.asarray(lengths), strict=True)]
    return texts


def bleu(captions, hypotheses, low, high):
    """Of the sources of `low` + 1 to `high` words."""
    from keras_attn.training.translation_metrics import translation_scores

    kept = [i for i, source in enumerate(captions.sources) if low < len(source) <= high]
    texts = [[" ".join(lists[i]) for i in kept] for lists in (hypotheses, captions.targets)]
    return translation_scores(*texts, tokenize="none")["bleu"][0]


if __name__ == "__main__":
    run_command(main, __doc__)
