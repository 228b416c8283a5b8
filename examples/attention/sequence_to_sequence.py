"""A sequence from another one without attention: spell names in another way, see spelling.py.

    python examples/attention/sequence_to_sequence.py [--seeds=1] [--steps=300]

All that the decoder knows of a name is a vector: its first state, or a part of what each step is
given, or both. Beside it stand a decoder that knows nothing of the name and one that attends to
the encoder's states. Units are as many as make about as many weights.
"""

import keras
from compare import compare, split
from keras import layers
from spelling import CHARACTERS, LONGEST, rows

from keras_attn.layers import Attention, SequenceToSequence

WIDTH = 48
UNITS = {"states": 64, "summary": 61, "input": 56, "both": 54}


def model(decode):
    source, target = (keras.Input((size,), dtype="int32") for size in (LONGEST, LONGEST + 1))
    name, told = (layers.Embedding(CHARACTERS, WIDTH, mask_zero=ids is source)(ids)
                  for ids in (source, target))
    return keras.Model((source, target), layers.Dense(CHARACTERS)(decode(name, told)))


def no_source(name, told):
    return layers.LSTM(100, return_sequences=True)(told)


def attentive(name, told):
    encoded, *state = layers.LSTM(57, return_sequences=True, return_state=True)(name)
    found = layers.LSTM(57, return_sequences=True)(told, initial_state=state)
    return layers.Concatenate()([found, Attention("bilinear")(found, encoded)])


def main():
    data = rows()
    data = (data["token_ids"], data["target_ids"]), data["label"], data["sample_weight"]
    models = {"no source": lambda seed: model(no_source)}
    for context, units in UNITS.items():
        models[context] = lambda seed, context=context, units=units: model(SequenceToSequence(
            layers.LSTMCell(units), layers.LSTMCell(units), context, seed=seed))
    models["attention"] = lambda seed: model(attentive)
    compare(models, *split(data, 500), steps=300, batch_size=32, seeds=1)


if __name__ == "__main__":
    main()
