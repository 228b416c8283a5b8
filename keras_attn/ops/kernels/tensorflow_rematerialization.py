"""Rematerialization on TensorFlow, with and without XLA."""

import tensorflow as tf

from keras_attn.ops.kernels.tensorflow_graphs import traced_once


def rematerialize(function, inputs, weights, states, options):
    """Calls `function(inputs, weights, states, options)` and recomputes it for the gradient.

    Args:
        function: Returns a tuple of tensors and a list of new states.
        inputs: Differentiable tensors, or None.
        weights: List of differentiable tensors.
        states: List of tensors.
        options: Dictionary of further arguments.

    Returns:
        The results of the function.
    """

    @traced_once
    def whole(inputs, weights, states, options):
        present = [x is not None for x in inputs]

        def call(tensors, states):
            given = iter(tensors)
            inputs = [next(given) if there else None for there in present]
            return function(inputs, list(given), states, options)

        @tf.custom_gradient
        def called(*tensors):
            outputs, new_states = call(tensors, states)

            def gradient(*upstream):
                upstream = upstream[: len(outputs)]
                late = _after(upstream[0])
                first = sum(present)
                again = [late(x) for x in tensors[:first]] + list(tensors[first:])
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    tape.watch(again)
                    results, _ = call(again, [late(x) for x in states])
                return tape.gradient(results, again, upstream, unconnected_gradients="zero")

            return (*outputs, *new_states), gradient

        found = called(*[x for x in inputs if x is not None], *weights)
        number = len(found) - len(states)
        return found[:number], list(found[number:])

    weights, states = ([tf.convert_to_tensor(x) for x in values] for values in (weights, states))
    return whole(inputs, weights, states, options)


def _after(tensor):
    """Returns an identity function whose result is not available before `tensor`.

    Otherwise the compiler would merge the recomputation with the original computation.
    """
    never = tf.reduce_any(tf.math.is_nan(tf.reshape(tensor, [-1])[:1]))
    return lambda x: tf.where(never, tf.zeros((), x.dtype), x)
