"""Linear-chain conditional random field, for tagging."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.ops import crf
from keras_attn.ops.masks import MASKED, as_mask
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class CRF(CheckedLayer):
    """Linear-chain conditional random field: the probability of a sequence of tags.

    `p(y | x) = exp(a[y_1] + sum_t x_t[y_t] + sum_t A[y_t, y_{t+1}] + b[y_T]) / Z(x)`, with an
    emission x for each position and tag, such as the output of a `Dense` layer without activation,
    and trainable transition scores A `(K, K)`, start scores a `(K,)` and end scores b `(K,)`, which
    are initialized to 0. All computations are in float32, whatever the dtype policy.

    The output contains what the loss and the predictions require. A model that ends with this layer
    trains with `model.compile(loss=keras_attn.ops.crf_loss)`, and can be saved, loaded and cloned:

    - `output[..., :K]` is 1 for the tag in the most probable sequence (Viterbi) and 0 for others.
    - `output[..., K + i * K + j]` is `log p(y_t = j | y_{t-1} = i, x)`; p is the product of these
      conditional probabilities. At the first position they do not depend on i.

    Log probabilities are not positive, so the argmax of the output is the predicted tag:
    `model.predict(x).argmax(-1)`, and `metrics=["accuracy"]` is the accuracy of the tags. A model
    that returns the tags alone is `keras.Model(model.inputs, keras.ops.argmax(model.output, -1))`.

    Masked positions are skipped, wherever they are: the positions before and after are adjacent. A
    fully masked row has log likelihood 0.

    Sequences with a forbidden start, transition or end have probability 0 and are never decoded;
    their log likelihood is about -1e30, so a loss of that size means that a target is forbidden.
    If all sequences of a row are forbidden, which can happen in a row of one position, the
    constraint that cannot be met counts as a uniform distribution.

    Args:
        allowed_transitions: Boolean `(K, K)`, True where tag i (row) may be followed by tag j
            (column); all if None.
        allowed_start: Boolean `(K,)`, True for tags that may be first; all if None.
        allowed_end: Boolean `(K,)`, True for tags that may be last; all if None.

    Call arguments:
        inputs: Emissions, `(B, T, K)`.
        mask: Boolean or integer `(B, T)`, True for positions with a tag; defaults to the Keras mask
            of the inputs.

    Returns:
        float32 `(B, T, K + K^2)`, 0 where masked.

    Raises:
        ValueError: If a constraint is not boolean, has another shape or allows nothing, the inputs
            do not have three axes, or the mask is float.

    Reference:
        Lafferty et al., Conditional Random Fields, 2001, section 3; Lample et al., Neural
        Architectures for Named Entity Recognition, 2016, section 2.2.

    Examples:
        >>> import keras
        >>> import numpy as np
        >>> from keras_attn.layers import CRF
        >>> from keras_attn.ops import crf_loss
        >>> tokens = keras.Input((None,), dtype="int32")
        >>> x = keras.layers.Embedding(9, 8, mask_zero=True)(tokens)
        >>> x = keras.layers.Bidirectional(keras.layers.LSTM(8, return_sequences=True))(x)
        >>> model = keras.Model(tokens, CRF()(keras.layers.Dense(3)(x)))
        >>> model.compile("adam", loss=crf_loss, metrics=["accuracy"])
        >>> # model.fit(sentences, tags), with integers (B, T)
        >>> outputs = model(np.array([[5, 2, 7], [4, 8, 0]]))
        >>> tuple(keras.ops.argmax(outputs, axis=-1).shape)
        (2, 3)

        A forbidden transition is not decoded:

        >>> layer = CRF(allowed_transitions=[[True, False], [True, True]])
        >>> tags, _ = layer.decode(np.array([[[3.0, 0.0], [0.0, 2.0]]]))
        >>> print(keras.ops.convert_to_numpy(tags))
        [[0 0]]
    """

    AXES = {"inputs": "BTK"}

    def __init__(
        self,
        allowed_transitions: Any = None,
        allowed_start: Any = None,
        allowed_end: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.allowed_transitions = _allowed("allowed_transitions", allowed_transitions, 2)
        self.allowed_start = _allowed("allowed_start", allowed_start, 1)
        self.allowed_end = _allowed("allowed_end", allowed_end, 1)
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.require_axes(inputs=input_shape)
        tags = input_shape[-1]
        for name in ("allowed_transitions", "allowed_start", "allowed_end"):
            allowed = getattr(self, name)
            if allowed is not None and len(allowed) != tags:
                raise ValueError(
                    f"CRF: {name} must have one entry per tag. Received: {name} of shape "
                    f"{allowed.shape}, inputs of shape {tuple(input_shape)}"
                )
        shapes = {"transitions": (tags, tags), "start": (tags,), "end": (tags,)}
        self.transitions, self.start, self.end = (
            self.add_weight(name=name, shape=shape, initializer="zeros", autocast=False)
            for name, shape in shapes.items()
        )
        self.built = True

    def call(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = self._scores(inputs, mask)
        decoded = ops.one_hot(crf.viterbi(scores)[0], inputs.shape[-1], dtype="float32")
        outputs = ops.concatenate([decoded, crf.conditional_log_probs(scores)], axis=-1)
        return ops.where(scores.mask[..., None], outputs, 0.0)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor | None = None) -> Tensor:
        """Log probability of sequences of tags.

        Args:
            emissions: `(B, T, K)`.
            tags: Integers `(B, T)`. Those below 0 are unknown and marginalized out.
            mask: Boolean or integer `(B, T)`, True for positions with a tag; all if None.

        Returns:
            float32 `(B,)`.

        Raises:
            ValueError: If the tags have another shape than the positions.
        """
        scores = self._scores(emissions, mask)
        log_probs = crf.conditional_log_probs(scores)
        losses = crf.tag_losses(ops.convert_to_tensor(tags), log_probs, scores.mask)
        return -ops.sum(losses, axis=1)

    def decode(self, emissions: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The most probable sequence of tags, by the Viterbi algorithm.

        Args:
            emissions: `(B, T, K)`.
            mask: Boolean or integer `(B, T)`, True for positions with a tag; all if None.

        Returns:
            int32 `(B, T)`, 0 where masked; and float32 `(B,)`, the sum of the scores of the
            sequence, which is its log probability plus `log Z(x)`.
        """
        return crf.viterbi(self._scores(emissions, mask))

    def marginals(self, emissions: Tensor, mask: Tensor | None = None) -> Tensor:
        """Probability of each tag at each position, by the forward-backward algorithm.

        Args:
            emissions: `(B, T, K)`.
            mask: Boolean or integer `(B, T)`, True for positions with a tag; all if None.

        Returns:
            float32 `(B, T, K)`, 0 where masked.
        """
        return crf.marginals(self._scores(emissions, mask))

    def _scores(self, emissions, mask):
        emissions = ops.cast(ops.convert_to_tensor(emissions), "float32")
        if not self.built:
            self.build(tuple(emissions.shape))
        self.require_axes(inputs=tuple(emissions.shape))
        tags = self.start.shape[0]
        if emissions.shape[-1] != tags:
            raise ValueError(
                f"The last axis must have {tags} entries, the tags that the layer was built for. "
                f"Received: a tensor of shape {tuple(emissions.shape)}"
            )
        # (B, T), also from a mask (1, T)
        real = ops.ones(ops.shape(emissions)[:2], "bool")
        real = real if mask is None else ops.logical_and(real, as_mask(mask))
        return crf.Scores(
            # Not a product with the mask: padding may be NaN.
            ops.where(real[..., None], emissions, 0.0),
            real,
            _restricted(self.transitions, self.allowed_transitions),
            _restricted(self.start, self.allowed_start),
            _restricted(self.end, self.allowed_end),
        )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        tags = input_shape[-1]
        return (*input_shape[:2], tags + tags * tags)

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        names = ("allowed_transitions", "allowed_start", "allowed_end")
        allowed = {name: getattr(self, name) for name in names}
        return {
            **super().get_config(),
            **{name: None if x is None else x.tolist() for name, x in allowed.items()},
        }


def _allowed(name, value, axes):
    """A constraint as a boolean array, or None."""
    if value is None:
        return None
    found = np.asarray(value)
    shape = "(K, K)" if axes == 2 else "(K,)"
    if found.dtype.kind not in "biu" or found.shape != found.shape[:1] * axes or not found.any():
        raise ValueError(
            f"CRF: {name} must be boolean, of shape {shape}, and True somewhere. "
            f"Received: {name}={value!r}"
        )
    return found.astype(bool)


def _restricted(weight, allowed):
    weight = ops.cast(weight, "float32")
    return weight if allowed is None else ops.where(allowed, weight, MASKED)
