"""Local attention: spell names of functions in another way, see spelling.py.

    python examples/attention/local.py [--seeds=1] [--steps=300]

Names run alike on both sides, but for what "_" adds: a window of 4 around the same place, or
around one that is predicted, is enough.
"""

from compare import compare, split
from spelling import CHARACTERS, rows

from keras_attn.models import LuongSeq2Seq


def main():
    models = {str(attention or "no attention"): lambda seed, attention=attention: LuongSeq2Seq(
        CHARACTERS, 48, attention=attention, window=4, seed=seed)
        for attention in (None, "global", "local_monotonic", "local_predictive")}
    compare(models, *split(rows(), 500), steps=300, score="token_accuracy", batch_size=32, seeds=1)


if __name__ == "__main__":
    main()
