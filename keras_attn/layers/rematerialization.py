"""Rematerialization (gradient checkpointing): activations that are computed again, not kept."""

import weakref

import keras

from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("tensorflow", "jax", "torch")


def rematerialize(layer, *inputs, **options):
    """Calls a layer, of which the gradient keeps the inputs alone and computes the rest again.

    The second time, dropout drops the same values: its masks depend on the states of seed
    generators, which are inputs here. `keras.remat` neither passes them nor differentiates with
    respect to weights inside `stateless_call`, on TensorFlow.

    Args:
        layer: A built layer whose only states are those of seed generators.
        *inputs: Tensors with a gradient, or None.
        **options: Other arguments of the call; no gradient passes into them.

    Returns:
        What `layer(*inputs, **options)` returns: a tensor, or a tuple of tensors and None.

    Reference:
        Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
    """
    # TensorFlow keeps every custom gradient, which must not keep the layer.
    reference, form = weakref.ref(layer), []

    def call(inputs, weights, states, options):
        layer = reference()
        variables, generators = _split_variables(layer)
        mapping = list(zip([*variables, *generators], [*weights, *states], strict=True))
        with keras.StatelessScope(mapping) as scope:
            outputs = layer(*inputs, **options)
        form[:] = [isinstance(outputs, tuple)]
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        form.extend(x is not None for x in outputs)
        found = tuple(x for x in outputs if x is not None)
        return found, [scope.get_current_value(v) for v in generators]

    variables, generators = _split_variables(layer)
    outputs, states = _KERNELS.rematerialize(
        call, inputs, [v.value for v in variables], [v.value for v in generators], options)
    for variable, value in zip(generators, states, strict=True):
        variable.assign(value)
    several, *given = form
    outputs = iter(outputs)
    outputs = tuple(next(outputs) if there else None for there in given)
    return outputs if several else outputs[0]


def _split_variables(layer):
    """The weights of a layer, and the states of its seed generators."""
    weights, generators = [], []
    for variable in layer.variables:
        is_state = variable.path.split("/")[-1] == "seed_generator_state"
        (generators if is_state else weights).append(variable)
    return weights, generators


def call_layer(model, layer, *inputs, **options):
    """`layer(*inputs, **options)`, in training by `rematerialize` if `model.remat` is set."""
    if model.remat and options.get("training"):
        return rematerialize(layer, *inputs, **options)
    return layer(*inputs, **options)
