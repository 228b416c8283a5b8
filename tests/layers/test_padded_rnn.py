"""Recurrent layers in both directions."""

import keras
import pytest
from keras.src.saving.serialization_lib import ObjectSharingScope

from keras_attn.layers.padded_rnn import bidirectional


@pytest.mark.thorough
def test_layers_of_a_loaded_model_are_not_taken_for_freed_ones():
    """Keras recognizes objects by their ids while it loads a model."""
    kinds, made = [keras.layers.GRU, keras.layers.LSTM], []
    with ObjectSharingScope():
        for number in range(200):
            layer = bidirectional(kinds[number % 2], 1 + number % 3, number, "float32", "both")
            layer.build((None, None, 1))
            made.append(layer)
    for number, layer in enumerate(made):
        assert type(layer.forward_layer) is kinds[number % 2]
        assert layer.forward_layer.units == layer.backward_layer.units == 1 + number % 3
    seeds = {layer.forward_layer.cell.kernel_initializer.initializer.seed for layer in made}
    assert len(seeds) == len(made)
