"""The ModernBERT encoder."""

import math
from collections.abc import Mapping
from typing import Any

import keras

from keras_attn.models.bert.encoder import LOCAL_EVERY, WINDOW, BertEncoder
from keras_attn.types import Activation

# Number of layers, hidden size, number of heads, feed-forward size. Base and large are those of the
# paper; the others have about as many parameters outside the embeddings as BERT's of that name.
MODERNBERT_SIZES = {
    "tiny": (3, 128, 2, 192),
    "mini": (6, 256, 4, 384),
    "small": (6, 512, 8, 768),
    "base": (22, 768, 12, 1152),
    "large": (28, 1024, 16, 2624),
}
# Further arguments of `BertEncoder` that make it a ModernBERT.
_DEFAULTS = {
    "num_segments": 0,
    "norm_first": True,
    "initial_attention": "uniform",
    "use_pooler": False,
    "positions": "rotary",
    "feed_forward": "geglu",
}


@keras.saving.register_keras_serializable(package="keras_attn")
class ModernBertEncoder(BertEncoder):
    """ModernBERT encoder without a task head: token ids to vectors.

    A `BertEncoder` with rotary positions, gated feed-forward layers, pre-norm, and local attention
    in most layers; without biases, segments and a pooler. It has no maximum length.

    Args:
        vocabulary_size: Vocabulary size V.
        num_layers: Number of encoder layers.
        hidden_dim: Hidden size D.
        num_heads: Number of attention heads H per layer; divides D.
        intermediate_dim: Feed-forward size, after gating; defaults to 1.5 D, rounded down.
        dropout: Dropout rate of the embeddings and of the output of each sublayer.
        attention_dropout: Dropout rate of the attention weights; defaults to `dropout`.
        max_length: Maximum length for which the model is meant. Longer inputs are accepted.
        activation: Activation of the gated units: see `BertEncoder`.
        layer_norm_epsilon: Added to the variance in layer normalization.
        initializer_range: Standard deviation of the initial weights. For layers that are added to
            the residual it is divided by `sqrt(2 num_layers)`.
        local_every: Number of layers of which the first one is global and the others are local.
        window: Number of positions that a local layer attends to: `window // 2` on either side.
        rotary_base: Base of the wavelengths of rotary positions in global layers.
        local_rotary_base: The same in local layers.
        seed: Integer seed of the initial weights and of dropout.
        use_bias: Whether attention and feed-forward layers have biases.
        norm_bias: Whether layer norms have biases.
        first_norm: Whether the first layer normalizes the input of its attention.
        **kwargs: Further arguments of `BertEncoder`, whose defaults are here those of ModernBERT.

    Call arguments:
        inputs: See `BertEncoder`; `segment_ids` are unused.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `sequence_output` `(B, T, D)`.

    Raises:
        ValueError: If an argument is out of range, or D is not a multiple of H.

    Reference:
        Warner et al., Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder, 2024,
        section 2.1.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ModernBertEncoder
        >>> model = ModernBertEncoder.from_size("tiny", vocabulary_size=50, window=2, seed=0)
        >>> ids = np.arange(40)[None] + 5
        >>> one, other = (np.array(model({"token_ids": x, "position_ids": p})["sequence_output"])
        ...               for x, p in ((ids, ids), (ids, ids + 3)))
        >>> print(one.shape, np.abs(one - other).max().round(3))  # only distances matter
        (1, 40, 128) 0.0
    """

    SIZES: Mapping[str, tuple[int, ...]] = MODERNBERT_SIZES

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        hidden_dim: int,
        num_heads: int,
        intermediate_dim: int | None = None,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        max_length: int = 8192,
        activation: Activation = "gelu_erf",
        layer_norm_epsilon: float = 1e-5,
        initializer_range: float = 0.02,
        local_every: int = LOCAL_EVERY,
        window: int = WINDOW,
        rotary_base: float = 160000.0,
        local_rotary_base: float = 10000.0,
        seed: int | None = None,
        name: str | None = "modernbert_encoder",
        use_bias: bool = False,
        norm_bias: bool = False,
        first_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            vocabulary_size,
            num_layers,
            hidden_dim,
            num_heads,
            intermediate_dim=intermediate_dim,
            dropout=dropout,
            attention_dropout=attention_dropout,
            max_length=max_length,
            activation=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            initializer_range=initializer_range,
            local_every=local_every,
            window=window,
            rotary_base=rotary_base,
            local_rotary_base=local_rotary_base,
            seed=seed,
            name=name,
            use_bias=use_bias,
            norm_bias=norm_bias,
            first_norm=first_norm,
            **{**_DEFAULTS, **kwargs},
        )
        self.intermediate_dim = intermediate_dim or 3 * hidden_dim // 2
        self.output_range = initializer_range / math.sqrt(2 * num_layers)
