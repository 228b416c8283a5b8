"""Translation: which characters of 我是一个学生 does each word of "i am a student" attend to?

    python examples/attention/chinese.py [--seeds=1] [--steps=600]

Sentences have one to three clauses of the words below. "student" attends to 学; the words before
it follow from the initial state of the decoder. For the model without attention see bahdanau.py.
"""

import numpy as np
from bahdanau import Mean
from compare import BEGIN, END, compare, padded
from keras import ops

from keras_attn.models import BahdanauSeq2Seq

SUBJECTS = {"我": "i am", "你": "you are", "他": "he is", "她": "she is"}
ADJECTIVES = {"": "", "好": "good", "新": "new", "年轻的": "young", "有名的": "famous"}
NOUNS = {"学生": "student", "老师": "teacher", "医生": "doctor", "护士": "nurse", "工人": "worker"}
SHOWN, COUNT, TEST = "我是一个学生", 2000, 512
SOURCE_LENGTH, TARGET_LENGTH = 29, 18


def sentences():
    """Returns different sentences, `{Chinese: English}`; the last one is `SHOWN`."""
    rng, pairs = np.random.default_rng(0), {}

    def clause():
        subject, adjective, noun = (rng.choice([*x]) for x in (SUBJECTS, ADJECTIVES, NOUNS))
        english = f"{SUBJECTS[subject]} a {ADJECTIVES[adjective]} {NOUNS[noun]}"
        return f"{subject}是一个{adjective}{noun}", english

    while len(pairs) < COUNT - 1:
        clauses = [clause() for _ in range(rng.integers(1, 4))]
        text, english = "，".join(c[0] for c in clauses), " and ".join(c[1] for c in clauses)
        if text != SHOWN:
            pairs[text] = english
    return {**pairs, SHOWN: "i am a student"}


def rows(pairs):
    """Returns the inputs of a sequence-to-sequence model, and the symbols of the ids."""
    targets = [english.split() for english in pairs.values()]
    symbols = ["", "?", "<s>", "</s>", *sorted({s for part in [*pairs, *targets] for s in part})]
    id_of = {symbol: number for number, symbol in enumerate(symbols)}
    ids = [[*(id_of[word] for word in target), END] for target in targets]
    source = padded([[id_of[c] for c in text] for text in pairs], SOURCE_LENGTH)
    label = padded(ids, TARGET_LENGTH)
    return {
        "token_ids": source,
        "padding_mask": np.minimum(source, 1),
        "target_ids": padded([[BEGIN, *row[:-1]] for row in ids], TARGET_LENGTH),
        "label": label,
        "sample_weight": np.minimum(label, 1).astype("float32"),
    }, symbols


def main():
    inputs, symbols = rows(sentences())
    train = {name: x[:-TEST] for name, x in inputs.items()}
    test = {name: x[-TEST:] for name, x in inputs.items()}
    models = {}

    def attentive(seed):
        return models.setdefault(seed, BahdanauSeq2Seq(len(symbols), 32, seed=seed))

    kinds = {"no attention": lambda seed: Mean(len(symbols), 34, seed=seed), "attention": attentive}
    compare(kinds, train, test, steps=600, score="token_accuracy", batch_size=32, seeds=1)
    found = models[0]({name: x[-1:] for name, x in test.items()}, training=False)
    words = ops.convert_to_numpy(found["logits"])[0].argmax(axis=-1)
    weights = ops.convert_to_numpy(found["alignments"])[0, :, : len(SHOWN)]
    for word, row in zip(words, weights, strict=True):
        if word == END:
            break
        print(
            f"{symbols[word]:8}", " ".join(f"{c} {w:.2f}" for c, w in zip(SHOWN, row, strict=True))
        )


if __name__ == "__main__":
    main()
