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
            self_attention(4), positions)
    for name, make in INSIDE.items():
        models[f"positions: {name}"] = lambda seed, name=name, make=make: encoder(
            make(), None, 224 if name == "Transformer-XL's" else 256)
    compare(models, *rows(SHORT), steps=200, batch_size=128, seeds=1, rate=5e-3, xla=True)


if __name__ == "__main__":
    main()
