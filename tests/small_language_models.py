"""Small texts in which each sentence has its own follower, and the config of a GPT-2 of them."""

import numpy as np

from keras_attn.defaults import language_modeling_defaults

SENTENCES = ["the cat sees a dog", "a dog hears the bird", "the bird sees the cat",
             "my café is grün 🙂"]


def write_texts(path, count, seed):
    """Documents in which each sentence has its own follower."""
    random = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        first = random.integers(len(SENTENCES))
        documents.append([SENTENCES[(first + n) % len(SENTENCES)]
                          for n in range(random.integers(2, 5))])
    path.write_text("\n\n".join("\n".join(document) for document in documents) + "\n")
    return documents


def config_of(folder, **fields):
    """A config whose data are train.txt and valid.txt of a folder."""
    config = language_modeling_defaults()
    config.update_from_flattened_dict({
        "data.train": str(folder / "train.txt"), "data.validation": str(folder / "valid.txt"),
        "data.format": "lines", "data.vocab_size": 320, "data.length": 24,
        "model.num_layers": 1, "model.hidden_dim": 32, "model.num_heads": 2,
        "model.max_length": 48, "train.steps": 4, "train.batch_size": 8,
        "train.learning_rate": 0.01, "eval.batch_size": 8, **fields})
    return config


def log_probabilities(model, ids):
    """Of each token after the first, by one whole pass and NumPy's float64."""
    logits = np.asarray(model({"token_ids": np.array([ids], np.int32)})["logits"], np.float64)[0]
    shares = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return shares[np.arange(len(ids) - 1), ids[1:]]
