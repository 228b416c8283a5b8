"""How attention is told where things are: name hidden characters.

    python examples/attention/positions.py [--seeds=1] [--steps=300]

See cloze.py for the task. Without positions attention sees the characters around in no order. Where
positions have many weights there are fewer units between attentions, for about as many in all.
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

HIDDEN = {"learned": 192, "Transformer-XL's": 224}  # else 256
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
        models[f"positions: {name}"] = lambda seed, name=name, positions=positions: encoder(
            lambda number: self_attention(4), positions, HIDDEN.get(name, 256))
    for name, make in INSIDE.items():
        models[f"positions: {name}"] = lambda seed, name=name, make=make: encoder(
            lambda number: make(), None, HIDDEN.get(name, 256))
    compare(models, *rows(), steps=300, batch_size=16, seeds=1)


if __name__ == "__main__":
    main()
