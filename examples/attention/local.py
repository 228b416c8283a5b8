"""Local attention: convert names from camel case to snake case, see spelling.py.

    python examples/attention/local.py [--seeds=1] [--steps=300]

Source and target are aligned, but for the underscores, so a window of 4 around the same position,
or around a predicted one, suffices. The model without attention has more units, for about as many
weights.
"""

from compare import compare, split
from spelling import CHARACTERS, rows

from keras_attn.models import LuongSeq2Seq

KINDS = {
    "no attention": {"units": 58, "attention": None},
    "global": {"units": 48, "attention": "global"},
    "local_monotonic": {"units": 48, "attention": "local_monotonic", "window": 4},
    "local_predictive": {"units": 48, "attention": "local_predictive", "window": 4},
}


def main():
    models = {
        name: lambda seed, kind=kind: LuongSeq2Seq(CHARACTERS, seed=seed, **kind)
        for name, kind in KINDS.items()
    }
    compare(models, *split(rows(), 500), steps=300, score="token_accuracy", batch_size=32, seeds=1)


if __name__ == "__main__":
    main()
