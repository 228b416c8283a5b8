"""Position encodings of attention: predict masked characters.

    python examples/attention/positions.py [--seeds=1] [--steps=200]

See cloze.py for the task; sequences have 16 characters. Without positions, attention sees an
unordered set. Transformer-XL's has the most weights, so its feed-forward layer is smaller.
"""

from cloze import SHORT, encoder, rows, self_attention
from compare import compare

from keras_attn.layers import (
    AlibiBias,
    LearnedPositionEmbedding,
    RelativeAttention,
    RelativePositionBias,
    RotaryEmbedding,
)

MODELS = {
    "no attention": lambda: encoder(None),
    "no positions": lambda: encoder(self_attention(4), None),
    "sinusoidal": lambda: encoder(self_attention(4)),
    "learned": lambda: encoder(self_attention(4), lambda: LearnedPositionEmbedding(SHORT)),
    "T5's buckets": lambda: encoder(self_attention(4, RelativePositionBias(4)), None),
    "ALiBi": lambda: encoder(self_attention(4, AlibiBias(4)), None),
    "rotary": lambda: encoder(self_attention(4, RotaryEmbedding()), None),
    "Transformer-XL's": lambda: encoder(RelativeAttention(4, 16, "xl"), None, 224),
    "Shaw's": lambda: encoder(RelativeAttention(4, 16, "shaw"), None),
}


def main():
    models = {name: lambda seed, make=make: make() for name, make in MODELS.items()}
    compare(models, *rows(SHORT), steps=200, batch_size=128, seeds=1, rate=5e-3, xla=True)


if __name__ == "__main__":
    main()
