"""How attention is told where things are: name hidden characters.

    python examples/attention/positions.py [--seeds=1] [--steps=300]

See cloze.py for the task. Without positions attention sees the characters around in no order.
"""

from cloze import LENGTH, encoder, rows, self_attention
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
    "learned": lambda: LearnedPositionEmbedding(LENGTH),
}
INSIDE = {
    "T5's buckets": lambda: self_attention(4, RelativePositionBias(4)),
    "ALiBi": lambda: self_attention(4, AlibiBias(4)),
    "rotary": lambda: self_attention(4, RotaryEmbedding()),
    "Transformer-XL's": lambda: RelativeAttention(4, 16, "xl"),
    "Shaw's": lambda: RelativeAttention(4, 16, "shaw"),
}


def main():
    models = {"no attention": lambda seed: encoder(None)}
    for name, positions in ADDED.items():
        models[f"positions: {name}"] = lambda seed, positions=positions: encoder(
            lambda number: self_attention(4), positions)
    for name, make in INSIDE.items():
        models[f"positions: {name}"] = lambda seed, make=make: encoder(
            lambda number: make(), None)
    compare(models, *rows(), steps=300, batch_size=16, seeds=1)


if __name__ == "__main__":
    main()
