"""GPT-2 as a causal language model."""

from typing import Any

import keras
from keras import ops

from keras_attn.models.building import needs_weights
from keras_attn.models.causal_language_model import CausalLanguageModel
from keras_attn.models.gpt2.decoder import GPT2
from keras_attn.models.shared_cache import make_writers, take_writers, write_step
from keras_attn.types import Nest, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class GPT2LanguageModel(CausalLanguageModel, keras.Model):
    """GPT-2 with a causal language model head, which shares the token embeddings.

    Args:
        backbone: `GPT2`.
        seed: Unused, as the head has no weights of its own.

    Call arguments:
        inputs: The backbone's dictionary and for losses and metrics also
            `label` `(B, T)`, optional: the next token of each position. By default, the following
                token of the row; then the last position of a row or pack and positions before
                padding are excluded from the loss.
            `sample_weight` `(B,)` or `(B, T)`, optional.
        training: Whether dropout is applied.

    Returns:
        The backbone's dictionary and `logits` `(B, T, V)` in float32; `errors` and `hits` `(B, T)`
        for the labels: the cross-entropy, and 1 where no logit exceeds the label's.

    `fit` requires a dataset of such dictionaries. Loss `token`; metric `token_accuracy`.

    Reference:
        Radford et al., Language Models are Unsupervised Multitask Learners, 2019, eq. 1.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import GPT2, GPT2LanguageModel
        >>> model = GPT2LanguageModel(GPT2.from_size("tiny", vocabulary_size=50, seed=0))
        >>> whole, beginning = (np.array(model({"token_ids": np.array([ids])})["logits"])
        ...                     for ids in ([4, 7, 9], [4, 7]))
        >>> print(whole.shape, np.abs(whole[:, :2] - beginning).max().round(4))  # none sees ahead
        (1, 3, 50) 0.0
    """

    def __init__(
        self,
        backbone: GPT2,
        seed: int | None = None,
        name: str | None = "gpt2_language_model",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)

    def share_cache(
        self, cache: list[tuple[Tensor, Tensor]], beams: int, length: int
    ) -> dict[str, Nest]:
        """Converts the cache of a prompt to a cache of K hypotheses that continue the prompt.

        Args:
            cache: As returned by `decode`, with K `length` entries after those of the prompt.
            beams: K.
            length: Maximum number of tokens of a hypothesis.

        Returns:
            The cache for `decode_beams`; `beam_search` reorders it with `reorder_cache`.
        """
        batch = ops.shape(cache[0][0])[0]
        return {"layers": cache, "writers": make_writers(batch, beams, length)}

    def reorder_cache(self, cache: dict[str, Nest], hypotheses: Tensor) -> dict[str, Nest]:
        """Selects the cache of the parent of each hypothesis, for `beam_search`.

        Args:
            cache: As returned by `share_cache` or `decode_beams`.
            hypotheses: Integers `(B K,)`, the index of the parent of each hypothesis.
        """
        return {**cache, "writers": take_writers(cache["writers"], hypotheses)}

    @needs_weights
    def decode_beams(
        self,
        token_ids: Tensor,
        index: Tensor | int,
        cache: dict[str, Nest],
        padding_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        logits_kernel: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Nest]]:
        """Like `decode`, for one token of each hypothesis.

        Args:
            token_ids: Integers `(B K,)`.
            index: Integer scalar, the step.
            cache: As returned by `share_cache` or the previous call.
            padding_mask: Integers `(B, P)`, 0 for padding of the prompt. None: no padding.
            position_ids: Integers `(B,)`; defaults to `P + index`.
            logits_kernel: See `decode`.

        Returns:
            (logits `(B K, V)`, cache).
        """
        writers, visible = write_step(cache["writers"], index)
        batch, beams, length = ops.shape(writers)
        prompt = cache["layers"][0][0].shape[2] - beams * length
        if padding_mask is not None:
            padding_mask = ops.concatenate(
                [padding_mask, ops.ones((batch, beams * length), padding_mask.dtype)], axis=1
            )
        if visible is not None:
            visible = ops.concatenate([ops.ones((batch, beams, prompt), "bool"), visible], axis=2)
        places = (
            ops.zeros((batch,), "int32") + prompt + index
            if position_ids is None
            else (position_ids)
        )
        hidden, layers = self.backbone.decode(
            ops.reshape(token_ids, (batch, beams)),
            prompt + index * beams,
            cache["layers"],
            padding_mask,
            ops.repeat(places[:, None], beams, axis=1),
            visible,
        )
        hidden = ops.reshape(hidden, (-1, hidden.shape[-1]))
        products = self.backbone.token_products(hidden, logits_kernel)
        return ops.cast(products, "float32"), {"layers": layers, "writers": writers}
