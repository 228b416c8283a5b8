"""Arrays of public implementations of attention, and functions that compare layers with them."""

import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parents[1] / "golden"
GOLDEN = np.load(FOLDER / "attention.npz", allow_pickle=False)


def golden(*folders):
    """The arrays of these folders by the rest of their names."""
    found = {}
    for folder in folders:
        found |= {
            name.removeprefix(f"{folder}/"): GOLDEN[name]
            for name in GOLDEN.files
            if name.startswith(f"{folder}/")
        }
    return found


def assign(layer, weights):
    """Sets weights by the last part of their paths; all must be given, and no two named alike."""
    assert sorted(v.path.split("/")[-1] for v in layer.weights) == sorted(weights)
    for variable in layer.weights:
        variable.assign(weights[variable.path.split("/")[-1]])


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(found, expected, tolerance, tolerance)
