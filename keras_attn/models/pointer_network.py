"""Pointer network."""

from typing import Any

import keras
from keras import ops

from keras_attn.generation.loop import decode_while
from keras_attn.layers.padded_rnn import recurrent, run_rnn
from keras_attn.layers.pointer_attention import PointerAttention
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.building import needs_weights
from keras_attn.models.task import Losses, label_weights
from keras_attn.ops import sparse_cross_entropy, take_positions
from keras_attn.ops.arguments import require_sizes
from keras_attn.ops.cross_entropy import hits
from keras_attn.ops.masks import MASKED, as_mask
from keras_attn.ops.weights import masked_softmax
from keras_attn.types import Shape, Tensor

MASKED_ERROR = 23.0  # loss of a masked label


@keras.saving.register_keras_serializable(package="keras_attn")
class PointerNetwork(Losses, keras.Model):
    """Sequence of positions of a variable-length input.

    An LSTM encodes the elements. A second LSTM starts from its last state, reads the previously
    chosen element (first a learned vector), and points at the next one with `PointerAttention`.
    There is no end-of-sequence token to point at, so outputs must have a known length, as in
    sorting, unlike in convex hulls.

    Args:
        element_dim: Size F of an element.
        units: Units of both LSTMs, and hidden units of the attention.
        forbid_repeats: Whether each element can be chosen at most once.
        seed: Integer seed of the initial weights.

    Call arguments:
        inputs: Dictionary.
            `elements`: Floats `(B, n, F)`. Empty inputs are treated as one masked element: then n
                is 1.
            `padding_mask`: Integers `(B, n)`, optional; 1 for real elements.
            `label`: Integers `(B, m)`, the target positions; the decoder reads the elements at
                these positions.
            `sample_weight`: Floats `(B, m)`, optional; 0 for padding of the labels, which must be
                at their end.

    Returns:
        Dictionary of float32 `logits` `(B, m, n)`, -1e30 where masked, and `attention` `(B, m, n)`,
        the distribution.

    `fit` requires a dataset of such dictionaries. Loss `pointer`: cross-entropy, 23 for masked
    elements; metric `accuracy`. `predict_indices` needs no labels.

    Raises:
        ValueError: If a size is not positive, or the shape of `elements` is not
            `(B, n, element_dim)`.

    Reference:
        Vinyals et al., Pointer Networks, 2015, section 2.3.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import PointerNetwork
        >>> model = PointerNetwork(element_dim=1, units=8, seed=0)
        >>> elements, label = np.array([[[0.3], [0.1], [0.2]]]), np.array([[1, 2, 0]])
        >>> found = model({"elements": elements, "label": label})
        >>> print(found["attention"].shape, np.array(found["attention"]).sum(axis=-1).round(3))
        (1, 3, 3) [[1. 1. 1.]]
    """

    INPUTS = {"elements": "BND", "padding_mask": "BN", "label": "BM"}
    REQUIRED = ("elements", "label")
    SAME_BATCH = ("elements", "label")
    metric_names = ("pointer_loss", "accuracy")

    def __init__(
        self,
        element_dim: int,
        units: int = 128,
        forbid_repeats: bool = False,
        seed: int | None = None,
        name: str | None = "pointer_network",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        require_sizes(element_dim=element_dim, units=units)
        self.element_dim = element_dim
        self.units = units
        self.forbid_repeats = forbid_repeats
        self.seed = seed

    def input_spec_of(self, name: str) -> keras.InputSpec:
        if name != "elements":
            return super().input_spec_of(name)
        return keras.InputSpec(shape=(None, None, self.element_dim), dtype="float32", name=name)

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        encoder_seed, decoder_seed, pointer_seed, start_seed = split_seed(self.seed, 4)
        self.encoder, self.decoder = (
            recurrent(keras.layers.LSTM, self.units, seed, dtype=self.dtype_policy, name=name)
            for name, seed in (("encoder", encoder_seed), ("decoder", decoder_seed))
        )
        self.pointer = PointerAttention(
            self.units, seed=pointer_seed, dtype=self.dtype_policy, name="pointer"
        )
        self.start = self.add_weight(
            name="start",
            shape=(1, self.element_dim),
            autocast=False,
            initializer=seeded_initializer("glorot_uniform", start_seed),
        )
        for lstm in (self.encoder, self.decoder):
            lstm.build((None, None, self.element_dim))
        hidden = (None, None, self.units)
        self.pointer.build(hidden, hidden)
        self.built = True

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        elements, mask = self._elements(inputs)
        memory, *state = run_rnn(self.encoder, elements, mask)
        label = ops.cast(inputs["label"], "int32")
        # Clipped, as padding of the labels may be out of range.
        chosen = take_positions(elements, ops.clip(label, 0, ops.shape(elements)[1] - 1))
        read = ops.concatenate([self._first(elements)[:, None], chosen], axis=1)[:, :-1]
        queries, *_ = run_rnn(self.decoder, read, initial_state=state)
        free = None
        if self.forbid_repeats:
            # Not one_hot, which PyTorch does not support for positions out of range.
            places = ops.arange(ops.shape(elements)[1], dtype="int32")
            taken = ops.cast(label[..., None] == places, "int32")
            free = ops.cumsum(taken, axis=1) - taken == 0
        logits, distribution = self.pointer(
            queries, memory, value_mask=mask, attention_mask=free, return_attention_scores=True
        )
        return {"logits": logits, "attention": distribution}

    @needs_weights
    def predict_indices(
        self,
        inputs: dict[str, Tensor],
        length: int | None = None,
        return_attention_scores: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Predicts positions greedily; the decoder reads each chosen element.

        Args:
            inputs: As in a call, without labels.
            length: Number of positions m per row; defaults to n.
            return_attention_scores: Whether to return the distributions.

        Returns:
            int32 `(B, m)`, -1 if no element is left; then, if requested, float32 `(B, m, n)`.
        """
        elements, mask = self._elements(inputs)
        rows, number, _ = ops.shape(elements)
        length = ops.shape(inputs["elements"])[1] if length is None else length
        memory, hidden, cell = run_rnn(self.encoder, elements, mask)
        keys = self.pointer.score.project_key(memory)
        free = ops.ones((rows, number), "bool") if mask is None else mask

        def body(state):
            hidden, (_, cell) = self.decoder.cell(state["read"], [state["hidden"], state["cell"]])
            query = self.pointer.score.project_query(hidden[:, None])
            distribution = masked_softmax(
                self.pointer.score.from_projected(query, keys)[:, 0], state["free"]
            )
            best = ops.cast(ops.argmax(distribution, axis=-1), "int32")
            found = ops.where(ops.any(state["free"], axis=-1), best, -1)
            index, free = state["index"], state["free"]
            if self.forbid_repeats:
                free = ops.logical_and(free, ops.arange(number, dtype="int32") != best[:, None])
            return {
                "index": index + 1,
                "hidden": hidden,
                "cell": cell,
                "free": free,
                "read": take_positions(elements, best[:, None])[:, 0],
                "found": ops.slice_update(state["found"], (0, index), found[:, None]),
                "attention": ops.slice_update(
                    state["attention"], (0, index, 0), distribution[:, None]
                ),
            }

        state = decode_while(
            lambda state: state["index"] < length,
            body,
            {
                "index": ops.zeros((), "int32"),
                "hidden": hidden,
                "cell": cell,
                "free": free,
                "read": self._first(elements),
                "found": ops.zeros((rows, length), "int32"),
                "attention": ops.zeros((rows, length, number), "float32"),
            },
        )
        return (state["found"], state["attention"]) if return_attention_scores else state["found"]

    def _elements(self, inputs):
        elements = ops.cast(inputs["elements"], self.compute_dtype)
        shape = tuple(elements.shape)
        if len(shape) != 3 or shape[2] not in (None, self.element_dim):
            raise ValueError(
                "PointerNetwork: elements must have shape (B, n, element_dim), with "
                f"element_dim={self.element_dim}. Received: elements.shape={shape}"
            )
        if elements.shape[1] == 0:  # one masked element, so that there is a position to point at
            batch = ops.shape(elements)[0]
            return (
                ops.zeros((batch, 1, self.element_dim), elements.dtype),
                ops.zeros((batch, 1), "bool"),
            )
        return elements, as_mask(inputs.get("padding_mask"), "padding_mask")

    def _first(self, elements):
        start = ops.cast(self.start, elements.dtype)
        return ops.broadcast_to(start, (ops.shape(elements)[0], self.element_dim))

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"pointer": ops.sum(label_weights(batch, batch["label"]))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        errors = sparse_cross_entropy(self._label(batch, outputs), outputs["logits"])
        errors = ops.where(self._possible(batch, outputs), errors, MASKED_ERROR)
        return {"pointer": ops.sum(label_weights(batch, batch["label"]) * errors)}

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        weights = label_weights(batch, batch["label"])
        correct = ops.where(
            self._possible(batch, outputs),
            hits(self._label(batch, outputs), outputs["logits"]),
            0.0,
        )
        return {"accuracy": (ops.sum(weights * correct), ops.sum(weights))}

    def _possible(self, batch, outputs):
        """Whether the element of each label is not masked."""
        label = self._label(batch, outputs)[..., None]
        own = ops.take_along_axis(outputs["logits"], label, axis=-1)[..., 0]
        return own > MASKED / 2

    def _label(self, batch, outputs):
        return ops.clip(ops.cast(batch["label"], "int32"), 0, ops.shape(outputs["logits"])[2] - 1)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "element_dim": self.element_dim,
            "units": self.units,
            "forbid_repeats": self.forbid_repeats,
            "seed": self.seed,
        }
