"""Positions around which queries attend to keys."""

import keras
from keras import ops

from keras_attn.layers.seeds import seeded_initializer
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.ops.arguments import require_positive
from keras_attn.ops.masks import as_mask
from keras_attn.ops.products import linear

ALIGNMENTS = "monotonic", "predictive"


class Alignment:
    """Position p of each query among the S unmasked keys of its row; its weights belong to a layer.

    Monotonic: `p_t = t`, at most S - 1. Predictive: `p_t = S sigmoid(v^T tanh(W q_t))`, at most
    S - 1; v and W get their gradients through the Gaussian `exp(-(s - p_t)^2 / (2 sigma^2))`.

    Args:
        owner: Name of the layer.
        alignment: `"monotonic"` or `"predictive"`.
        sigma: Standard deviation of the Gaussian; None selects `default_sigma`.
        default_sigma: Depends on the window; 0 requires a `sigma`.
        kernel_initializer: Initializer of W, `(Q, Q)`, and of v.
        seeds: Two integer seeds, of W and of v.
        **window: The arguments that define the window, for error messages.

    Raises:
        ValueError: If an argument is out of range, unknown or unused.
    """

    def __init__(self, owner, alignment, sigma, default_sigma, kernel_initializer, seeds, **window):
        if alignment not in ALIGNMENTS:
            raise ValueError(
                f"{owner}: alignment must be one of {', '.join(ALIGNMENTS)}. "
                f"Received: alignment={alignment!r}"
            )
        self.predictive = alignment == "predictive"
        if not self.predictive:
            reject_unused('alignment="predictive"', sigma=(sigma, None))
        elif sigma is not None:
            require_positive(sigma=sigma)
        elif not default_sigma:
            received = ", ".join(f"{name}={value}" for name, value in window.items())
            raise ValueError(
                f"{owner}: sigma must be a positive number if the window contains a single key. "
                f"Received: sigma=None, {received}"
            )
        self.sigma = sigma
        self.default_sigma = default_sigma
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.seeds = seeds

    def build(self, layer, depth):
        """Adds the weights of predictive alignment to the layer, for queries of this depth."""
        if not self.predictive:
            return
        shapes = {"position_kernel": (depth, depth), "position_vector": (depth, 1)}
        self.weights = []
        for (name, shape), seed in zip(shapes.items(), self.seeds, strict=True):
            weight = layer.add_weight(
                name=name,
                shape=shape,
                autocast=False,  # positions are computed in float32
                initializer=seeded_initializer(self.kernel_initializer, seed),
            )
            setattr(layer, name, weight)  # `tf.saved_model.save` only tracks attributes
            self.weights.append(weight)

    def centers(self, query, last, query_mask=None, query_positions=None):
        """The positions p, float32 `(B or 1, T, 1)`.

        Args:
            query: `(B, T, Q)`.
            last: Position of the last key, as returned by `unmasked_positions`.
            query_mask: `(B, T)` or None.
            query_positions: The t of monotonic alignment, `(B, T)` or `(T,)`; defaults to the
                positions among the unmasked queries.
        """
        if self.predictive:
            return self.predict(query, last)
        if query_positions is None:
            query_positions = unmasked_positions(ops.shape(query)[1], query_mask)[0][:, 0]
        # (T,) or (B, T) -> (B or 1, T, 1)
        positions = ops.cast(query_positions, "float32")[..., None]
        positions = positions[None] if len(positions.shape) == 2 else positions
        return ops.minimum(positions, last)

    def predict(self, query, last):
        """The positions p of predictive alignment, float32 `(B, T, 1)`."""
        query, kernel, vector = (ops.cast(x, "float32") for x in (query, *self.weights))
        share = ops.sigmoid(linear(ops.tanh(linear(query, kernel)), vector))
        return ops.minimum((last + 1.0) * share, last)

    def exponent(self, distances):
        """The logarithm of the Gaussian, `-(s - p_t)^2 / (2 sigma^2)`, from `s - p_t`."""
        sigma = self.default_sigma if self.sigma is None else self.sigma
        return -ops.square(distances) / (2.0 * sigma**2)

    def get_config(self):
        """Returns the arguments of a layer that select the alignment."""
        return {
            "alignment": "predictive" if self.predictive else "monotonic",
            "sigma": self.sigma,
        }


def unmasked_positions(length, mask):
    """Positions among the unmasked entries, `(B or 1, 1, S)`, and the last one, `(B or 1, 1, 1)`.

    In float32; masked entries get arbitrary positions.

    Args:
        length: S.
        mask: `(B, S)` or None.
    """
    if mask is None:
        places = ops.arange(length, dtype="float32")[None, None]
        count = ops.full((1, 1, 1), length, dtype="float32")
    else:
        real = ops.cast(as_mask(mask), "float32")[:, None]
        places = ops.cumsum(real, axis=-1) - 1.0
        count = ops.sum(real, axis=-1, keepdims=True)
    return places, ops.maximum(count - 1.0, 0.0)
