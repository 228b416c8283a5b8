"""Calls of task models in steps, without side effects."""

import keras

from keras_attn.training.variables import is_seed


def training_outputs(model, others, values, other_values, batch, fold):
    """Returns the outputs of a model in training for given values of its variables.

    In contrast to `stateless_call`, variables of other models can be given, too.

    Args:
        model: A built task model.
        others: Its non-trainable variables, and variables of other models that it reads.
        values, other_values: Values of its trainable variables, and of `others`.
        batch: Dict of tensors.
        fold: Function from the index of a variable in `others` to a seed, for seed generators.
    """
    other_values = [
        fold(k) if is_seed(variable) else value
        for k, (variable, value) in enumerate(zip(others, other_values, strict=True))
    ]
    variables = [*model.trainable_variables, *others]
    mapping = list(zip(variables, [*values, *other_values], strict=True))
    with keras.StatelessScope(state_mapping=mapping):
        return model.call(batch, training=True)
