"""Luong's attention: convert names from camel case to snake case, see spelling.py.

    python examples/attention/luong.py [--seeds=1] [--steps=300]

Without attention, the decoder sees only the final states of the encoder. The numbers of units
differ so that all models have about the same number of weights.
"""

from compare import compare, split
from spelling import CHARACTERS, rows

from keras_attn.models import LuongSeq2Seq

KINDS = {
    "no attention": {"units": 58, "attention": None},
    "dot": {"units": 50, "score": "dot"},
    "bilinear": {"units": 48, "score": "bilinear"},
    "concat": {"units": 48, "score": "concat"},
    "bilinear, no input feeding": {"units": 54, "score": "bilinear", "input_feeding": False},
}


def main():
    models = {
        name: lambda seed, kind=kind: LuongSeq2Seq(CHARACTERS, seed=seed, **kind)
        for name, kind in KINDS.items()
    }
    compare(models, *split(rows(), 500), steps=300, score="token_accuracy", batch_size=32, seeds=1)


if __name__ == "__main__":
    main()
