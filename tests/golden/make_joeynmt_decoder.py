"""Makes joeynmt_decoder.npz: JoeyNMT's recurrent decoder with random weights, in float64.

The modules are not copied here; pass the path of the folder joeynmt, with `torch` installed:

    python tests/golden/make_joeynmt_decoder.py joeynmt

Source: joeynmt/joeynmt@cdc4d03d430a1b0f29793a0d95743c5e72ae2f6c. The bias of its attention vector
is set to 0: Luong's formula, and our layer, have none.
"""

import importlib
import pathlib
import sys
import types

import numpy as np
import torch

ROWS, STEPS, KEYS, KEY_DEPTH, EMBEDDING_DIM, UNITS, WORDS = 3, 5, 6, 3, 2, 4, 7


def decoders(folder):
    """Imports the decoder module with stubs for imports that are not needed here."""
    unused = {
        "builders": {"build_activation": lambda name: getattr(torch, name)},
        "config": {"ConfigurationError": ValueError},
        "encoders": {"Encoder": object},
        "helpers": {"freeze_params": None, "subsequent_mask": None},
        "transformer_layers": {"PositionalEncoding": None, "TransformerDecoderLayer": None},
    }
    for name, names in {"": {"__path__": [folder]}, **unused}.items():
        name = f"joeynmt.{name}".rstrip(".")
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(names)
    return importlib.import_module("joeynmt.decoders")


def main(folder):
    module, random = decoders(folder), np.random.default_rng(1)
    state = random.normal(size=(2, ROWS, UNITS))
    found = {
        "target_ids": random.integers(WORDS, size=(ROWS, STEPS)),
        "embedding": random.normal(size=(WORDS, EMBEDDING_DIM)),
        "memory": random.normal(size=(ROWS, KEYS, KEY_DEPTH)),
        "mask": np.arange(KEYS) < np.array([6, 4, 1])[:, None],
        "state": state,
    }
    embedded = found["embedding"][found["target_ids"]]
    for attention in ("luong", "bahdanau"):
        decoder = (
            module.RecurrentDecoder(
                "lstm",
                EMBEDDING_DIM,
                UNITS,
                types.SimpleNamespace(output_size=KEY_DEPTH),
                attention,
                vocab_size=WORDS,
                init_hidden="zeros",
                input_feeding=True,
            )
            .double()
            .eval()
        )
        for name, weight in decoder.named_parameters():
            weight.data = torch.tensor(random.normal(size=weight.shape))
            if name == "att_vector_layer.bias":
                weight.data.zero_()
            found[f"{attention}/{name}"] = weight.data.numpy()
        with torch.no_grad():
            logits, _, alignments, _ = decoder(
                torch.tensor(embedded),
                torch.tensor(found["memory"]),
                None,
                torch.tensor(found["mask"])[:, None],
                STEPS,
                hidden=tuple(torch.tensor(x)[:, None] for x in state),
            )
        found[f"{attention}/logits"], found[f"{attention}/alignments"] = (
            x.numpy() for x in (logits, alignments)
        )
    np.savez_compressed(pathlib.Path(__file__).with_name("joeynmt_decoder.npz"), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
