"""Small parallel texts that are translated word by word, and the config of a translator of them."""

import numpy as np

from keras_attn.defaults import translation_defaults

WORDS = {
    "red": "rot",
    "green": "grün",
    "blue": "blau",
    "big": "groß",
    "small": "klein",
    "cat": "Katze",
    "dog": "Hund",
    "bird": "Vogel",
    "sees": "sieht",
    "hears": "hört",
}


def make_corpus(folder):
    """Writes train.en, train.de, valid.en and valid.de; returns the folder."""
    for name, count, seed in (("train", 2000, 0), ("valid", 40, 1)):
        random = np.random.default_rng(seed)
        sources = [
            " ".join(random.choice(list(WORDS), random.integers(1, 6))) for _ in range(count)
        ]
        targets = [" ".join(WORDS[word] for word in line.split()) for line in sources]
        for side, lines in (("en", sources), ("de", targets)):
            (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return folder


def config_of(folder, **fields):
    """A config whose data are such files."""
    config = translation_defaults()
    config.update_from_flattened_dict(
        {
            **{
                f"data.{split}.{side}": str(folder / f"{name}.{ending}")
                for split, name in (("train", "train"), ("validation", "valid"))
                for side, ending in (("source", "en"), ("target", "de"))
            },
            "data.vocab_size": 60,
            "data.length": 32,
            "model.num_layers": 1,
            "model.hidden_dim": 32,
            "model.num_heads": 2,
            "model.intermediate_dim": 64,
            "model.dropout": 0.0,
            "model.positions": "learned",
            "train.steps": 4,
            "train.batch_tokens": 512,
            "train.learning_rate": 0.005,
            "eval.beam": 2,
            **fields,
        }
    )
    return config
