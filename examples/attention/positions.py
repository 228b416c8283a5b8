"""How attention is told where things are: name hidden characters.

    python examples/attention/positions.py [--seeds=1] [--steps=200]

See cloze.py for the task; rows have 16 characters. Without positions attention sees those around in
no order. Transformer-XL's have the most weights, so fewer units follow attention there.
"""

from cloze import SHORT, encoder, rows, self_attention
from compare import compare

from keras_attn.layers import (
    AlibiBias,
    LearnedPositionEmbedding,
    RelativeAttention,
    RelativePositionBias,
    RotaryEmbedding,
    SinusoidalPositionEncoding,
)

ADDED = {
    "none": None,
    "sinusoidal": SinusoidalPositionEncoding,
    "learned": lambda: LearnedPositionEmbedding(SHORT),
}
INSIDE = {  # with the units after attention
    "T5's buckets": (lambda: self_attention(4, RelativePositionBias(4)), 256),
    "ALiBi": (lambda: self_attention(4, AlibiBias(4)), 256),
    "rotary": (lambda: self_attention(4, RotaryEmbedding()), 256),
    "Transformer-XL's": (lambda: RelativeAttention(4, 16, "xl"), 224),
    "Shaw's": (lambda: RelativeAttention(4, 16, "shaw"), 256),
}


def main():
    models = {"no attention": lambda seed: encoder(None)}
    for name, positions in ADDED.items():
        models[f"positions: {name}"] = lambda seed, positions=positions: encoder(
            self_attention(4), positions)
    for name, (make, hidden) in INSIDE.items():
        models[f"positions: {name}"] = lambda seed, make=make, hidden=hidden: encoder(
            make(), None, hidden)
    compare(models, *rows(SHORT), steps=200, batch_size=128, seeds=1, rate=5e-3, xla=True)


if __name__ == "__main__":
    main()
