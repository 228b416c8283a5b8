"""Makes transformer.npz: torch.nn.Transformer with embeddings, a loss and random weights.

Run with `torch` installed:

    python tests/golden/make_transformer.py
"""

import math
import pathlib

import numpy as np
import torch

LAYERS, HIDDEN_DIM, HEADS, INTERMEDIATE_DIM, VOCABULARY = 2, 12, 3, 20, 17
PAD = 0


def make_inputs():
    """Returns three sources of 9, 4 and 6 real tokens, and targets of 7, 5 and 2."""
    random = np.random.default_rng(1)
    inputs = {
        "token_ids": random.integers(1, VOCABULARY, (3, 9)),
        "target_ids": random.integers(1, VOCABULARY, (3, 7)),
        "label": random.integers(1, VOCABULARY, (3, 7)),
    }
    for row, (source, target) in enumerate([(9, 7), (4, 5), (6, 2)]):
        inputs["token_ids"][row, source:] = PAD
        inputs["target_ids"][row, target:] = inputs["label"][row, target:] = PAD
    return inputs


def make_weights(model):
    generator = torch.Generator().manual_seed(0)
    weights = {}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight.copy_(0.3 * noise + float(name.endswith("weight") and "norm" in name))
            weights[name] = weight
    table = 0.3 * torch.randn(VOCABULARY, HIDDEN_DIM, generator=generator, dtype=torch.float64)
    return {**weights, "table": table.requires_grad_()}


def positions(length):
    """Returns the sinusoidal encoding of Attention Is All You Need, section 3.5."""
    angles = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (
        torch.arange(0, HIDDEN_DIM, 2, dtype=torch.float64) / HIDDEN_DIM
    )
    return torch.stack([torch.sin(angles), torch.cos(angles)], dim=-1).reshape(length, HIDDEN_DIM)


def run(norm_first, inputs):
    model = torch.nn.Transformer(
        HIDDEN_DIM,
        HEADS,
        LAYERS,
        LAYERS,
        INTERMEDIATE_DIM,
        dropout=0.0,
        batch_first=True,
        norm_first=norm_first,
        dtype=torch.float64,
    )
    if not norm_first:  # the paper has no final norm
        model.encoder.norm = model.decoder.norm = None
    weights = make_weights(model)
    table = weights["table"]
    ids = {name: torch.tensor(array) for name, array in inputs.items()}
    source, target = (
        table[ids[name]] * math.sqrt(HIDDEN_DIM) + positions(ids[name].shape[1])
        for name in ("token_ids", "target_ids")
    )
    padding = ids["token_ids"] == PAD
    length = target.shape[1]
    decoded = model(
        source,
        target,
        tgt_mask=torch.triu(torch.ones(length, length, dtype=torch.bool), 1),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    logits = decoded @ table.T
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, VOCABULARY),
        ids["label"].reshape(-1),
        ignore_index=PAD,
        label_smoothing=0.1,
    )
    loss.backward()
    prefix = f"{'pre' if norm_first else 'post'}/"
    arrays = {f"{prefix}logits": logits, f"{prefix}loss": loss}
    arrays |= {f"{prefix}weights/{name}": weight for name, weight in weights.items()}
    arrays |= {f"{prefix}gradients/{name}": weight.grad for name, weight in weights.items()}
    return {name: array.detach().numpy() for name, array in arrays.items()}


if __name__ == "__main__":
    found = {f"inputs/{name}": array for name, array in make_inputs().items()}
    for norm_first in (False, True):
        found |= run(norm_first, make_inputs())
    np.savez_compressed(
        pathlib.Path(__file__).with_name("transformer.npz"),
        **{
            name: array.astype("float32") if array.dtype == "float64" else array
            for name, array in found.items()
        },
    )
