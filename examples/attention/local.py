"""Local attention: spell names of functions in another way, see spelling.py.

    python examples/attention/local.py [--seeds=1] [--steps=300]

Names run alike on both sides, but for what "_" adds: a window of 4 around the same place, or
around one that is predicted, is enough.
"""

from compare import compare, split
from spelling import CHARACTERS, rows

from keras_attn.models import LuongSeq2Seq

KINDS = {
    "no attention": {"attention": None},
    "global": {"attention": "global"},
    "local_monotonic": {"attention": "local_monotonic", "window": 4},
    "local_predictive": {"attention": "local_predictive", "window": 4},
}


def main():
    models = {name: lambda seed, kind=kind: LuongSeq2Seq(CHARACTERS, 48, seed=seed, **kind)
              for name, kind in KINDS.items()}
    compare(models, *split(rows(), 500), steps=300, score="token_accuracy", batch_size=32, seeds=1)


if __name__ == "__main__":
    main()
