"""Rematerialization (gradient checkpointing)."""

import weakref

import keras

from keras_attn.ops import kernels

_KERNELS = kernels.of_backend("tensorflow", "jax", "torch")


def rematerialize(layer, *inputs, **options):
    """Calls a layer and recomputes its activations in the backward pass instead of storing them.

    The recomputation uses the same dropout masks: they depend on the states of seed generators,
    which are inputs here. On TensorFlow, `keras.remat` neither passes these states nor
    differentiates with respect to weights inside `stateless_call`.

    Args:
        layer: A built layer without state other than seed generators.
        *inputs: Differentiable tensors, or None.
        **options: Further arguments of the call, without gradient.

    Returns:
        The result of `layer(*inputs, **options)`: a tensor, or a tuple of tensors and None.

    Reference:
        Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
    """
    # TensorFlow never frees custom gradients, so they must not reference the layer.
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
        call, inputs, [v.value for v in variables], [v.value for v in generators], options
    )
    for variable, value in zip(generators, states, strict=True):
        variable.assign(value)
    several, *given = form
    outputs = iter(outputs)
    outputs = tuple(next(outputs) if there else None for there in given)
    return outputs if several else outputs[0]


def _split_variables(layer):
    """Splits the variables of a layer into weights and the states of seed generators."""
    weights, generators = [], []
    for variable in layer.variables:
        is_state = variable.path.split("/")[-1] == "seed_generator_state"
        (generators if is_state else weights).append(variable)
    return weights, generators


def call_layer(model, layer, *inputs, **options):
    """Calls the layer, in training with rematerialization if `model.remat` is set."""
    if model.remat and options.get("training"):
        return rematerialize(layer, *inputs, **options)
    return layer(*inputs, **options)
