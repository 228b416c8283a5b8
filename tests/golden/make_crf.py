"""Makes crf.npz: pytorch-crf with random weights, in float64.

With `torch` and `pytorch-crf` installed:

    python tests/golden/make_crf.py

Its transitions are from row to column, as ours.
"""

import pathlib

import numpy as np
import torch
from torchcrf import CRF

ROWS, LENGTH, TAGS = 4, 7, 5


def main():
    random = np.random.default_rng(1)
    found = {
        "transitions": random.normal(size=(TAGS, TAGS)),
        "start": random.normal(size=TAGS),
        "end": random.normal(size=TAGS),
        "emissions": 2 * random.normal(size=(ROWS, LENGTH, TAGS)),
        "mask": np.arange(LENGTH) < np.array([7, 4, 2, 1])[:, None],
        "tags": random.integers(TAGS, size=(ROWS, LENGTH)),
    }
    crf = CRF(TAGS, batch_first=True).double()
    names = {"transitions": "transitions", "start": "start_transitions", "end": "end_transitions"}
    crf.load_state_dict({theirs: torch.tensor(found[ours]) for ours, theirs in names.items()})
    emissions = torch.tensor(found["emissions"], requires_grad=True)
    mask = torch.tensor(found["mask"])
    likelihoods = crf(emissions, torch.tensor(found["tags"]), mask, reduction="none")
    likelihoods.sum().backward()
    found["log_likelihood"] = likelihoods.detach().numpy()
    for ours, theirs in names.items():
        found[f"gradients/{ours}"] = getattr(crf, theirs).grad.numpy()
    found["gradients/emissions"] = emissions.grad.numpy()
    decoded = crf.decode(emissions, mask)
    found["decoded"] = np.array([row + [0] * (LENGTH - len(row)) for row in decoded])
    path = pathlib.Path(__file__).with_name("crf.npz")
    np.savez_compressed(path, **found)


if __name__ == "__main__":
    main()
