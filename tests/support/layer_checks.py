"""Checks of every layer, given the layer, its inputs and a NumPy reference."""

import json

import keras
import numpy as np
from keras import ops

# For `compile(jit_compile=JIT)`: on TensorFlow XLA takes longer to compile a model and its
# gradients than these tests take to learn by graphs; JAX without it runs one operation at a time.
JIT = keras.backend.backend() == "jax"


def check_layer(make, inputs, reference, *, arguments=None, tolerance=1e-5, half_tolerance=0.05):
    """Runs every check that needs no more than this: those of `check_values`, XLA and a file.

    Takes three times as long as `check_values`.

    Args:
        make: Function `(**kwargs)` that makes the layer, without dropout.
        inputs: Dictionary of arrays, the first of them positional in the call.
        reference: Function `(weights, **inputs)` in NumPy; `weights` maps the
            last part of each variable's path to a float64 array.
        arguments: Other call arguments.
        tolerance: Of values in float32.
        half_tolerance: Of values in bfloat16, as a share of the largest.
    """
    arguments = arguments or {}
    layer, expected = check_values(
        make,
        inputs,
        reference,
        arguments=arguments,
        tolerance=tolerance,
        half_tolerance=half_tolerance,
    )
    check_symbolic_and_file(layer, inputs, arguments, expected, tolerance)
    check_compiled(layer, inputs, arguments, expected, tolerance)


def check_values(make, inputs, reference, *, arguments=None, tolerance=1e-5, half_tolerance=0.05):
    """Checks values, gradients and config, as `check_layer` does.

    Returns:
        The layer, with random weights, and its expected values.
    """
    arguments = arguments or {}
    layer = make()
    randomize(layer, inputs, arguments)
    expected = reference(weights_of(layer), **as_float64(inputs))
    np.testing.assert_allclose(run(layer, inputs, arguments), expected, tolerance, tolerance)
    check_gradients(layer, inputs, reference, arguments)
    check_config(layer, make)
    check_half_precision(layer, make, inputs, arguments, expected, half_tolerance)
    return layer, expected


def randomize(layer, inputs, arguments=None, seed=3):
    """Builds the layer and makes every weight random, zeros and ones too."""
    run(layer, inputs, arguments or {})
    random = np.random.default_rng(seed)
    for variable in layer.trainable_variables:
        noise = random.normal(size=variable.shape) * 0.4
        variable.assign(noise + (1.0 if variable.path.endswith("gamma") else 0.0))


def run(layer, inputs, arguments=None, index=0):
    """The layer's output, or output `index` of several, as an array."""
    first, *rest = inputs
    tensors = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    outputs = layer(tensors[first], **{n: tensors[n] for n in rest}, **(arguments or {}))
    outputs = outputs[index] if isinstance(outputs, (tuple, list)) else outputs
    return ops.convert_to_numpy(ops.cast(outputs, "float32"))


def weights_of(layer):
    """Last part of each variable's path -> float64 array; whole paths where that is ambiguous."""
    prefix = len(layer.name) + 1
    return {
        v.path[prefix:]: np.asarray(ops.convert_to_numpy(v), "float64")
        for v in layer.trainable_variables
    }


def as_float64(inputs):
    return {n: x.astype("float64") if x.dtype.kind == "f" else x for n, x in inputs.items()}


def gradients(function, arrays):
    """Gradients of a scalar function of tensors, on any backend.

    Args:
        function: Takes a list of tensors and returns a float32 scalar.
        arrays: List of arrays.

    Returns:
        List of arrays.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return [np.asarray(g) for g in jax.grad(function)([jax.numpy.asarray(a) for a in arrays])]
    tensors = [ops.convert_to_tensor(a) for a in arrays]
    if backend == "torch":
        tensors = [t.detach().clone().requires_grad_() for t in tensors]
        function(tensors).backward()
        return [np.zeros(t.shape) if t.grad is None else t.grad.numpy(force=True) for t in tensors]
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = function(tensors)
    found = tape.gradient(value, tensors, unconnected_gradients="zero")
    return [tf.convert_to_tensor(g).numpy() for g in found]


def layer_gradients(layer, inputs, arguments=None, projection=None):
    """Gradients of `sum(output * projection)` for weights and float inputs.

    Returns:
        Two dictionaries: by variable path below the layer, and by input.
    """
    floats = [name for name, x in inputs.items() if x.dtype.kind == "f"]
    variables = layer.trainable_variables

    def function(tensors):
        weights, values = tensors[: len(variables)], tensors[len(variables) :]
        fixed = {n: ops.convert_to_tensor(x) for n, x in inputs.items()}
        named = {**fixed, **dict(zip(floats, values, strict=True))}
        first, *rest = named
        # Not `stateless_call`, which is past where a layer casts to its policy's dtype.
        with keras.StatelessScope(list(zip(variables, weights, strict=True))):
            outputs = layer(named[first], **{n: named[n] for n in rest}, **(arguments or {}))
        outputs = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
        return ops.sum(outputs if projection is None else ops.multiply(outputs, projection))

    arrays = [ops.convert_to_numpy(v) for v in variables] + [inputs[n] for n in floats]
    found = gradients(function, arrays)
    prefix = len(layer.name) + 1
    by_path = {v.path[prefix:]: g for v, g in zip(variables, found, strict=False)}
    return by_path, dict(zip(floats, found[len(variables) :], strict=True))


def check_every_weight_gets_a_gradient(model, batch):
    """The loss of a task model has a finite gradient, not all 0, for each weight."""
    model.build()
    batch = {name: ops.convert_to_tensor(array) for name, array in batch.items()}
    others = [v.value for v in model.non_trainable_variables]

    def loss(weights):
        outputs, _ = model.stateless_call(weights, others, batch)
        return model.compute_loss(batch, y_pred=outputs)

    weights = [ops.convert_to_numpy(v) for v in model.trainable_variables]
    for variable, found in zip(model.trainable_variables, gradients(loss, weights), strict=True):
        assert np.isfinite(found).all() and np.abs(found).max() > 0, variable.path


def check_depths(model, count):
    """The depths hold each variable of a backbone once; returns them."""
    model.build()
    depths = model.variables_by_depth()
    assert len(depths) == count
    found = [v.path for depth in depths for v in depth]
    assert sorted(found) == sorted(v.path for v in model.variables)
    return depths


def check_gradients(layer, inputs, reference, arguments=None):
    """Gradients agree with finite differences of the reference in float64."""
    random = np.random.default_rng(4)
    weights, exact = weights_of(layer), as_float64(inputs)
    projection = random.normal(size=np.shape(reference(weights, **exact)))
    by_path, by_input = layer_gradients(layer, inputs, arguments, projection.astype("float32"))
    for name, gradient in {**by_path, **by_input}.items():
        direction = random.normal(size=gradient.shape)
        ends = []
        for step in (1e-5, -1e-5):
            moved_weights, moved = dict(weights), dict(exact)
            place = moved_weights if name in by_path else moved
            place[name] = place[name] + step * direction
            ends.append(np.sum(reference(moved_weights, **moved) * projection))
        slope = (ends[0] - ends[1]) / 2e-5
        scale = np.linalg.norm(gradient) * np.linalg.norm(direction)
        np.testing.assert_allclose(
            np.sum(gradient * direction), slope, atol=1e-4 * scale + 1e-5, err_msg=name
        )


def check_config(layer, make):
    """The config is complete JSON: another layer made from it has it too."""
    config = layer.get_config()
    again = type(layer).from_config(json.loads(json.dumps(config)))
    assert again.get_config() == config
    defaults = make().get_config()
    assert {k: v for k, v in config.items() if k != "name"} == {
        k: v for k, v in defaults.items() if k != "name"
    }


def check_symbolic_and_file(layer, inputs, arguments, expected, tolerance, path="layer.keras"):
    """A functional model with no batch or length works, and reloads by itself."""
    import tempfile

    symbols = {
        name: keras.Input(
            (*(None if i == 1 else d for i, d in enumerate(x.shape[1:], 1)),),
            dtype=x.dtype.name,
            name=name,
        )
        for name, x in inputs.items()
    }
    first, *rest = symbols
    outputs = layer(symbols[first], **{n: symbols[n] for n in rest}, **arguments)
    symbol = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
    assert len(symbol.shape) == expected.ndim
    assert symbol.shape[0] is None
    assert all(s in (None, d) for s, d in zip(symbol.shape, expected.shape, strict=True))
    model = keras.Model(symbols, symbol)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/{path}")
        again = keras.saving.load_model(f"{folder}/{path}")
    shorter = {name: x[:1, :2] if x.ndim > 1 else x[:1] for name, x in inputs.items()}
    for m in (model, again):
        found = ops.convert_to_numpy(m(inputs))
        np.testing.assert_allclose(found, expected, tolerance, tolerance)
        assert np.isfinite(ops.convert_to_numpy(m(shorter))).all()


def check_half_precision(layer, make, inputs, arguments, expected, tolerance):
    """float16 and bfloat16 are near float32."""
    scale = np.abs(expected).max()
    for policy, share in (("mixed_float16", tolerance / 8), ("mixed_bfloat16", tolerance)):
        half = make(dtype=policy)
        run(half, inputs, arguments)
        for variable, source in zip(half.variables, layer.variables, strict=True):
            variable.assign(source)
        found = run(half, inputs, arguments)
        np.testing.assert_allclose(found, expected, atol=share * scale, err_msg=policy)
        first = next(iter(inputs))
        outputs = half(inputs[first], **{n: inputs[n] for n in list(inputs)[1:]}, **arguments)
        outputs = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
        assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")


def check_compiled(layer, inputs, arguments, expected, tolerance):
    """XLA gives the same values. PyTorch has no XLA here."""
    first, *rest = inputs

    def call(named):
        outputs = layer(named[first], **{n: named[n] for n in rest}, **arguments)
        return outputs[0] if isinstance(outputs, (tuple, list)) else outputs

    tensors = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
    found = compiled(call)(tensors)
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, tolerance, tolerance)


def compiled(function):
    """The function under XLA, or itself on PyTorch."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.jit(function)
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True, autograph=False)
    return function


def in_a_graph(function):
    """The function as a training step without XLA runs it, which differs on TensorFlow alone."""
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return tf.function(function, autograph=False)


def with_other_padding(inputs, mask, names, extra=3):
    """The same inputs with other content at padding, and with more of it.

    Args:
        inputs: Dictionary of arrays.
        mask: Name of the `(B, T)` mask.
        names: Inputs whose padded positions change.
        extra: How many padded positions the second one has more.

    Returns:
        Two dictionaries.
    """
    real = inputs[mask].astype(bool)
    random = np.random.default_rng(5)
    other, longer = dict(inputs), dict(inputs)
    for name in names:
        x = inputs[name]
        noise = (30 * random.normal(size=x.shape)).astype(x.dtype)
        other[name] = np.where(real.reshape(real.shape + (1,) * (x.ndim - 2)), x, noise)
    for name in [mask, *names]:
        x = inputs[name]
        filler = np.zeros((x.shape[0], extra, *x.shape[2:]), x.dtype)
        if name != mask:
            filler += np.asarray(7, x.dtype)
        longer[name] = np.concatenate([x, filler], axis=1)
    return other, longer
