"""Small texts in which each sentence determines the next one, and configs of all families."""

import numpy as np

from keras_attn.defaults import (
    default_config,
    language_modeling_defaults,
    permutation_modeling_defaults,
    pretraining_defaults,
)

SENTENCES = [
    "the cat sees a dog",
    "a dog hears the bird",
    "the bird sees the cat",
    "my café is grün 🙂",
]
# By the kind of tokenizer.
_DEFAULTS = {
    "wordpiece": (pretraining_defaults, {"data.vocab_size": 200}),
    "bpe": (language_modeling_defaults, {"data.vocab_size": 320, "model.max_length": 48}),
    "roberta_bpe": (lambda: default_config("masked_lm", "roberta"), {"data.vocab_size": 320}),
    "sentencepiece": (permutation_modeling_defaults, {"data.vocab_size": 60}),
}


def write_texts(path, count, seed, sentences=SENTENCES):
    """Returns documents in which each sentence determines the next one."""
    random = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        first = random.integers(len(sentences))
        documents.append(
            [sentences[(first + n) % len(sentences)] for n in range(random.integers(2, 5))]
        )
    path.write_text("\n\n".join("\n".join(document) for document in documents) + "\n")
    return documents


def config_of(folder, kind="bpe", **fields):
    """A config whose data are train.txt and valid.txt of a folder."""
    defaults, own = _DEFAULTS[kind]
    config = defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "train.txt"),
            "data.validation": str(folder / "valid.txt"),
            "data.format": "lines",
            "data.length": 24,
            "model.num_layers": 1,
            "model.hidden_dim": 32,
            "model.num_heads": 2,
            "train.steps": 4,
            "train.batch_size": 8,
            "train.learning_rate": 0.01,
            "eval.batch_size": 8,
            **own,
            **fields,
        }
    )
    return config


def log_probabilities(model, ids):
    """Of each token after the first, by one whole pass and NumPy's float64."""
    logits = np.asarray(model({"token_ids": np.array([ids], np.int32)})["logits"], np.float64)[0]
    shares = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return shares[np.arange(len(ids) - 1), ids[1:]]
