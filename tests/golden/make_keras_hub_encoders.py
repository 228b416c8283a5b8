"""Makes keras_hub_encoders/: small RoBERTa, DistilBERT and ELECTRA presets of KerasHub.

The weights are random. Their outputs are computed, too. Run with `keras-hub` and `tensorflow`
installed:

    python tests/golden/make_keras_hub_encoders.py
"""

import json
import pathlib
import shutil

import keras
import keras_hub
import numpy as np

FOLDER = pathlib.Path(__file__).with_name("keras_hub_encoders")
ENCODERS = pathlib.Path(__file__).with_name("encoders")
TEXTS = ["the cat sat on the mat", "It's 1,234 times", "Zürich — £5"]
WORD_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]


def make_tokenizers():
    model = json.loads((ENCODERS / "roberta_encoder" / "tokenizer.json").read_text())["model"]
    merges = [" ".join(pair) for pair in model["merges"]]
    more_pieces = [*WORD_PIECES, *(f"##{letter}" for letter in WORD_PIECES[5:]), "Z", "—"]
    return {
        "roberta": keras_hub.models.RobertaTokenizer(vocabulary=model["vocab"], merges=merges),
        "distilbert": keras_hub.models.DistilBertTokenizer(vocabulary=WORD_PIECES, lowercase=True),
        "electra": keras_hub.models.ElectraTokenizer(
            vocabulary=more_pieces, lowercase=True, strip_accents=True
        ),
        "electra_square": keras_hub.models.ElectraTokenizer(vocabulary=more_pieces),
    }


def make(name, tokenizer):
    kind, settings = {
        "roberta": (keras_hub.models.RobertaBackbone, {}),
        "distilbert": (keras_hub.models.DistilBertBackbone, {}),
        "electra": (keras_hub.models.ElectraBackbone, {"embedding_dim": 6}),
        "electra_square": (
            keras_hub.models.ElectraBackbone,
            {"embedding_dim": 8, "num_segments": 3},
        ),
    }[name]
    size = "vocab_size" if "electra" in name else "vocabulary_size"
    backbone = kind(
        **{size: tokenizer.vocabulary_size()},
        **settings,
        num_layers=3,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=14,
        max_sequence_length=24,
        dropout=0.2,
    )
    random = np.random.default_rng(len(name))
    for variable in backbone.variables:
        mean = float("gamma" in variable.path)
        variable.assign(mean + 0.3 * random.standard_normal(variable.shape).astype("float32"))
    backbone.save_to_preset(str(FOLDER / name))
    tokenizer.save_to_preset(str(FOLDER / name))
    arrays = {}
    for number, text in enumerate(TEXTS):
        ids = np.asarray(tokenizer(text))[None]
        inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
        if "electra" in name:
            hidden = backbone({**inputs, "segment_ids": ids % 2})["sequence_output"]
        else:
            hidden = backbone(inputs)
        arrays |= {
            f"{name}/{number}/text": np.array(text),
            f"{name}/{number}/ids": ids,
            f"{name}/{number}/sequence_output": np.asarray(hidden),
        }
    return arrays


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    arrays = {}
    for name, tokenizer in make_tokenizers().items():
        arrays |= make(name, tokenizer)
    np.savez_compressed(FOLDER / "outputs.npz", **arrays)
    versions = {"keras": keras.__version__, "keras-hub": keras_hub.__version__}
    (FOLDER / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
