"""Small models of every kind, and their inputs."""

import numpy as np
from keras import ops

from keras_attn.models import (
    ABCNN,
    AttentionalFactorizationMachine,
    AttentiveLSTMClassifier,
    HierarchicalAttentionNetwork,
    PointerGenerator,
    PointerNetwork,
)

BEGIN, END = 2, 3
RANDOM = np.random.default_rng(0)
TEXTS = np.where(np.arange(6) < RANDOM.integers(2, 7, (24, 1)), RANDOM.integers(2, 12, (24, 6)), 0)


def documents():
    """Whether the word 1 is somewhere."""
    ids, label = TEXTS.copy(), np.arange(24) % 2
    ids[label == 1, np.arange(12) % 2] = 1
    return {"token_ids": ids, "label": label}


def pairs():
    """Whether the second text is the first one."""
    label = np.arange(24) % 2
    second = np.where(label[:, None] > 0, TEXTS, np.roll(TEXTS, 5, axis=0))
    return {"token_ids": TEXTS, "second_token_ids": second, "label": label}


def products():
    """The product of the values of features 0 and 1; feature 3 may be absent."""
    values = RANDOM.normal(size=(24, 4)).astype("float32")
    return {
        "feature_ids": np.tile(np.arange(4), (24, 1)),
        "feature_values": values,
        "padding_mask": np.stack([*np.ones((3, 24), int), np.arange(24) % 2], axis=1),
        "label": values[:, 0] * values[:, 1],
    }


def numbers(count=24, length=5, seed=0):
    """The order of numbers."""
    elements = np.random.default_rng(seed).uniform(size=(count, length, 1)).astype("float32")
    return {
        "elements": elements,
        "padding_mask": np.ones((count, length), int),
        "label": elements[..., 0].argsort(axis=1),
    }


def summaries():
    """The first two words of the source, of which 10 and 11 are outside the vocabulary."""
    source = np.maximum(TEXTS, 4 * (TEXTS > 0))
    label = np.concatenate([source[:, :2], np.full((24, 1), END)], axis=1)
    target = np.concatenate([np.full((24, 1), BEGIN), label[:, :-1]], axis=1)
    return {
        "token_ids": source,
        "target_ids": target,
        "label": label,
        "sample_weight": np.ones((24, 3), "float32"),
    }


def chapters():
    """Documents of two paragraphs of two sentences; the second repeats the first backwards."""
    data = documents()
    ids = np.concatenate([data["token_ids"], data["token_ids"][:, ::-1]], axis=1)
    return {**data, "token_ids": ids.reshape(24, 2, 2, 3)}


def lstm(reduce="attention", **options):
    return AttentiveLSTMClassifier(12, 2, 6, 4, reduce, **{"seed": 0, **options})


def abcnn(variant, blocks=1, **options):
    return ABCNN(12, 2, 9, variant, 6, 5, 3, blocks, **{"seed": 0, **options})


def generator(coverage=True, **options):
    return PointerGenerator(10, 2, 8, 8, coverage=coverage, **{"seed": 0, **options})


MODELS = {
    "han": (
        lambda **o: HierarchicalAttentionNetwork(12, 2, 6, 3, 3, 5, **{"seed": 0, **o}),
        lambda: {**documents(), "token_ids": documents()["token_ids"].reshape(24, 2, 3)},
    ),
    "han_of_three_levels": (
        lambda **o: HierarchicalAttentionNetwork(
            12, 2, 6, None, 3, 5, higher_units=(3,), **{"seed": 0, **o}
        ),
        chapters,
    ),
    **{
        reduce: (lambda reduce=reduce, **o: lstm(reduce, **o), documents)
        for reduce in ("attention", "last", "mean", "max", "self_attention")
    },
    **{
        f"abcnn{variant}": (lambda v=variant, **o: abcnn(v, 1 + v // 3, **o), pairs)
        for variant in range(4)
    },
    **{
        name: (
            lambda a=attention, **o: AttentionalFactorizationMachine(
                4, 4, 5, 3, a, **{"seed": 0, **o}
            ),
            products,
        )
        for name, attention in (("afm", True), ("fm", False))
    },
    "pointer": (lambda **o: PointerNetwork(1, 16, **{"seed": 0, **o}), numbers),
    "pointer_once": (lambda **o: PointerNetwork(1, 16, True, **{"seed": 0, **o}), numbers),
    "generator": (generator, summaries),
    "generator_without_coverage": (lambda **o: generator(False, **o), summaries),
}


def made(name, **options):
    make, data = MODELS[name]
    data = {
        k: x.astype("int32") if x.dtype.kind == "i" else x.astype("float32")
        for k, x in data().items()
    }
    return make(**options), data


def outputs_of(model, batch):
    return {
        name: ops.convert_to_numpy(ops.cast(value, "float32"))
        for name, value in model(batch).items()
    }
