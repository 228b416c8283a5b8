"""Makes joeynmt_attention.npz: JoeyNMT's two attentions with random weights, in float64.

The module is not copied here; pass the path of joeynmt/attention.py, with `torch` installed:

    python tests/golden/make_joeynmt_attention.py attention.py

Source: joeynmt/joeynmt@cdc4d03d430a1b0f29793a0d95743c5e72ae2f6c.
"""

import importlib.util
import pathlib
import sys

import numpy as np
import torch

BATCH, QUERIES, KEYS, QUERY_DEPTH, KEY_DEPTH, UNITS = 3, 4, 6, 5, 3, 7


def main(path):
    spec = importlib.util.spec_from_file_location("joeynmt_attention", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    random = np.random.default_rng(1)
    query = random.normal(size=(BATCH, QUERIES, QUERY_DEPTH))
    value = random.normal(size=(BATCH, KEYS, KEY_DEPTH))
    mask = np.arange(KEYS) < np.array([6, 4, 1])[:, None]
    found = {"query": query, "value": value, "value_mask": mask}
    for name, attention in {
        "bahdanau": module.BahdanauAttention(UNITS, KEY_DEPTH, QUERY_DEPTH),
        "luong": module.LuongAttention(QUERY_DEPTH, KEY_DEPTH),
    }.items():
        attention.double()
        for weight_name, weight in attention.named_parameters():
            weight.data = torch.tensor(random.normal(size=weight.shape))
            found[f"{name}/{weight_name}"] = weight.data.numpy()
        values = torch.tensor(value)
        attention.compute_proj_keys(values)
        with torch.no_grad():
            steps = [
                attention(torch.tensor(query[:, t : t + 1]), torch.tensor(mask[:, None]), values)
                for t in range(QUERIES)
            ]
        for part, arrays in zip(("context", "scores"), zip(*steps, strict=True), strict=True):
            found[f"{name}/{part}"] = torch.cat(arrays, dim=1).numpy()
    np.savez_compressed(pathlib.Path(__file__).with_name("joeynmt_attention.npz"), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
