"""Sequence to sequence without attention: convert names from camel case, see spelling.py.

    python examples/attention/sequence_to_sequence.py [--seeds=1] [--steps=300]

The decoder sees one vector of the source: as its first state, as part of the input at each step, or
both. For comparison there are a decoder that does not see the source, and one that attends to the
encoder states. The numbers of units give all models about the same number of weights.
"""

import keras
from compare import compare, split
from keras import layers
from spelling import CHARACTERS, LONGEST, rows

from keras_attn.layers import Attention, SequenceToSequence

EMBEDDING_DIM = 48
UNITS = {"states": 64, "summary": 61, "input": 56, "both": 54}


def model(decode):
    source_ids, target_ids = (
        keras.Input((size,), dtype="int32") for size in (LONGEST, LONGEST + 1)
    )
    source, target = (
        layers.Embedding(CHARACTERS, EMBEDDING_DIM, mask_zero=ids is source_ids)(ids)
        for ids in (source_ids, target_ids)
    )
    return keras.Model((source_ids, target_ids), layers.Dense(CHARACTERS)(decode(source, target)))


def no_source(source, target):
    return layers.LSTM(100, return_sequences=True)(target)


def attentive(source, target):
    encoded, *state = layers.LSTM(57, return_sequences=True, return_state=True)(source)
    outputs = layers.LSTM(57, return_sequences=True)(target, initial_state=state)
    return layers.Concatenate()([outputs, Attention("bilinear")(outputs, encoded)])


def main():
    data = rows()
    data = (data["token_ids"], data["target_ids"]), data["label"], data["sample_weight"]
    models = {"no source": lambda seed: model(no_source)}
    for context, units in UNITS.items():
        models[context] = lambda seed, context=context, units=units: model(
            SequenceToSequence(layers.LSTMCell(units), layers.LSTMCell(units), context, seed=seed)
        )
    models["attention"] = lambda seed: model(attentive)
    compare(models, *split(data, 500), steps=300, batch_size=32, seeds=1)


if __name__ == "__main__":
    main()
