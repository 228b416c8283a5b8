"""The decoder of PyTorch's first translation tutorial, with scores of positions and of content.

    python examples/attention/tutorial_decoder.py [--seeds=1] [--steps=300]

See spelling.py for the task. The tutorial scores positions: the score of a source character
depends on the decoder alone, not on the character. The numbers of units differ so that all models
have about the same number of weights.
"""

import keras
from compare import compare, split
from keras import layers
from spelling import CHARACTERS, LONGEST, rows

from keras_attn.layers import Attention, AttentionCell, LocationScore, RecurrentDecoder

ATTENTIONS = {
    "no attention": (None, 53),
    "positions": (lambda: Attention(LocationScore(LONGEST, use_bias=True)), 48),
    "content": (lambda: Attention("additive", units=48), 46),
}


def model(attention, units):
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    embedded = layers.Embedding(CHARACTERS, units, mask_zero=True)(source)
    encoder = layers.GRU(units, return_sequences=True, return_state=True)
    memory, last = encoder(embedded)
    reads = {
        "order": "attend_first",
        "query_inputs": True,  # scores depend on the previous character, too
        "combine": layers.Dense(units, "relu"),
    }
    cell = AttentionCell(
        layers.GRUCell(units), attention and attention(), **(reads if attention else {})
    )
    decoder = RecurrentDecoder(cell, CHARACTERS, units)
    logits, _ = decoder(target, memory, initial_state=last)
    return keras.Model((source, target), logits)


def main():
    models = {
        name: lambda seed, options=options: model(*options) for name, options in ATTENTIONS.items()
    }
    data = rows()
    arrays = (data["token_ids"], data["target_ids"]), data["label"], data["sample_weight"]
    compare(models, *split(arrays, 500), steps=300, batch_size=32, seeds=1)


if __name__ == "__main__":
    main()
