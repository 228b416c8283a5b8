"""Makes keras_hub/: a small BERT preset of KerasHub with random weights, and its outputs.

Run with `keras-hub` and `tensorflow` installed:

    python tests/golden/make_keras_hub.py
"""

import json
import pathlib
import shutil

import keras
import keras_hub
import numpy as np

FOLDER = pathlib.Path(__file__).with_name("keras_hub")
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(TOKENS),
        num_layers=3,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=14,
        max_sequence_length=12,
        dropout=0.2,
    )
    random = np.random.default_rng(0)
    for variable in backbone.variables:
        mean = float("gamma" in variable.path)
        variable.assign(mean + 0.3 * random.standard_normal(variable.shape).astype("float32"))
    backbone.save_to_preset(str(FOLDER))
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=TOKENS, lowercase=True)
    tokenizer.save_to_preset(str(FOLDER))
    inputs = {
        "token_ids": random.integers(1, len(TOKENS), (2, 9)).astype("int32"),
        "segment_ids": np.repeat([[0] * 4 + [1] * 5], 2, 0).astype("int32"),
        "padding_mask": np.array([[1] * 9, [1] * 6 + [0] * 3], "int32"),
    }
    outputs = {name: np.asarray(value) for name, value in backbone(inputs).items()}
    np.savez_compressed(
        FOLDER / "outputs.npz", **{f"inputs/{k}": v for k, v in inputs.items()}, **outputs
    )
    versions = {"keras": keras.__version__, "keras-hub": keras_hub.__version__}
    (FOLDER / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
