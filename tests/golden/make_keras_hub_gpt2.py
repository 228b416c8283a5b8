"""Makes keras_hub_gpt2/: a small GPT-2 preset of KerasHub with random weights, and its outputs.

Run with `keras-hub` and `tensorflow` installed:

    python tests/golden/make_keras_hub_gpt2.py
"""

import json
import pathlib
import shutil

import keras
import keras_hub
import numpy as np

FOLDER = pathlib.Path(__file__).with_name("keras_hub_gpt2")
SOURCE = pathlib.Path(__file__).with_name("language_models") / "gpt2" / "tokenizer.json"
TEXTS = ["the cat sat on the mat", "It's 1,234 times", "Zürich — £5"]


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    model = json.loads(SOURCE.read_text())["model"]
    tokenizer = keras_hub.models.GPT2Tokenizer(
        vocabulary=model["vocab"], merges=[" ".join(pair) for pair in model["merges"]]
    )
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=len(model["vocab"]),
        num_layers=3,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=14,
        max_sequence_length=24,
        dropout=0.2,
    )
    random = np.random.default_rng(0)
    for variable in backbone.variables:
        mean = float("gamma" in variable.path)
        variable.assign(mean + 0.3 * random.standard_normal(variable.shape).astype("float32"))
    backbone.save_to_preset(str(FOLDER))
    tokenizer.save_to_preset(str(FOLDER))
    arrays = {}
    for number, text in enumerate(TEXTS):
        ids = np.asarray(tokenizer(text))[None]
        hidden = backbone({"token_ids": ids, "padding_mask": np.ones_like(ids)})
        logits = backbone.token_embedding(hidden, reverse=True)
        arrays |= {
            f"{number}/text": np.array(text),
            f"{number}/ids": ids,
            f"{number}/logits": np.asarray(logits),
        }
    np.savez_compressed(FOLDER / "outputs.npz", **arrays)
    versions = {"keras": keras.__version__, "keras-hub": keras_hub.__version__}
    (FOLDER / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
