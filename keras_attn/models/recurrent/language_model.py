"""Recurrent causal language model."""

from typing import Any

import keras
from keras import ops

from keras_attn.models.building import needs_weights
from keras_attn.models.causal_language_model import CausalLanguageModel
from keras_attn.models.recurrent.encoder import RecurrentEncoder
from keras_attn.models.row_cache import RowCache
from keras_attn.types import Nest, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class RecurrentLanguageModel(RowCache, CausalLanguageModel, keras.Model):
    """A unidirectional recurrent encoder with a causal language model head.

    The head shares the token embeddings. Calls, losses and decoding are as in `GPT2LanguageModel`,
    except that documents in the same row share their states: the end-of-sequence token before each
    document separates them.

    Args:
        backbone: `RecurrentEncoder` with `bidirectional=False` and `embedding_dim` D.
        seed: Unused, as the head has no weights of its own.

    Raises:
        ValueError: If the backbone is bidirectional or its embeddings have another size.

    Reference:
        Mikolov et al., Recurrent neural network based language model, 2010; shared embeddings:
        Press and Wolf, Using the Output Embedding to Improve Language Models, 2017.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import RecurrentEncoder, RecurrentLanguageModel
        >>> model = RecurrentLanguageModel(RecurrentEncoder(50, 1, 8, bidirectional=False, seed=0))
        >>> whole, beginning = (np.array(model({"token_ids": np.array([ids])})["logits"])
        ...                     for ids in ([4, 7, 9], [4, 7]))
        >>> print(whole.shape, np.abs(whole[:, :2] - beginning).max().round(4))  # causal
        (1, 3, 50) 0.0
    """

    BACKBONE_ATTRIBUTES = (*CausalLanguageModel.BACKBONE_ATTRIBUTES, "bidirectional")

    def __init__(
        self,
        backbone: RecurrentEncoder,
        seed: int | None = None,
        name: str | None = "recurrent_language_model",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)
        if backbone.bidirectional or backbone.embedding_dim != backbone.hidden_dim:
            raise ValueError(
                "RecurrentLanguageModel: the backbone must have bidirectional=False and "
                f"embedding_dim equal to hidden_dim. Received: bidirectional="
                f"{backbone.bidirectional}, embedding_dim={backbone.embedding_dim}, "
                f"hidden_dim={backbone.hidden_dim}"
            )

    def share_cache(self, cache: Nest, beams: int, length: int) -> Nest:
        """Copies the states of each prompt for K hypotheses that continue it.

        Args:
            cache: As returned by `decode`.
            beams: K.
            length: Maximum number of tokens of a hypothesis; unused.
        """
        return keras.tree.map_structure(lambda x: ops.repeat(x, beams, axis=0), cache)

    @needs_weights
    def decode_beams(
        self,
        token_ids: Tensor,
        index: Tensor | int,
        cache: Nest,
        padding_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        logits_kernel: Tensor | None = None,
    ) -> tuple[Tensor, Nest]:
        """Like `decode`, for one token of each hypothesis.

        Args:
            token_ids: Integers `(B K,)`.
            index: Integer scalar, the step; unused, like the next two.
            cache: As returned by `share_cache` or the previous call.
            padding_mask: Padding of the prompt, which the states do not contain.
            position_ids: Positions of the tokens.
            logits_kernel: See `GPT2LanguageModel.decode`.

        Returns:
            (logits `(B K, V)`, cache).
        """
        return self.decode(token_ids[:, None], 0, cache, logits_kernel=logits_kernel)
