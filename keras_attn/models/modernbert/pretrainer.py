"""ModernBERT with its pretraining head."""

from typing import Any

import keras

from keras_attn.models.bert.pretrainer import BertPretrainer
from keras_attn.models.modernbert.encoder import ModernBertEncoder


@keras.saving.register_keras_serializable(package="keras_attn")
class ModernBertPretrainer(BertPretrainer):
    """ModernBERT with the head of its masked language model.

    A dense layer, activation and norm on the masked positions only, then the product with the token
    embeddings plus a bias. Unlike `BertPretrainer`, which documents calls, losses and metrics, it
    has no next-sentence prediction.

    Args:
        backbone: `ModernBertEncoder`, or another encoder with its attributes.
        next_sentence: Whether to train next-sentence prediction; requires a backbone with a pooler.
        **kwargs: Further arguments of `BertPretrainer`.

    Reference:
        Warner et al., ModernBERT, 2024; `ModernBertForMaskedLM` of transformers.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.models import ModernBertEncoder, ModernBertPretrainer
        >>> backbone = ModernBertEncoder.from_size("tiny", vocabulary_size=50, seed=0)
        >>> model = ModernBertPretrainer(backbone)
        >>> found = model({"token_ids": np.array([[4, 7, 9]]), "mask_positions": np.array([[1]])})
        >>> p = np.array(ops.softmax(found["mlm_logits"]))
        >>> print((-np.sum(p * np.log(p), axis=-1)).round(1))  # log 50: it has learnt nothing yet
        [[3.9]]
    """

    def __init__(
        self,
        backbone: ModernBertEncoder,
        next_sentence: bool = False,
        name: str | None = "modernbert_pretrainer",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, next_sentence, name=name, **kwargs)

    @classmethod
    def head_names(cls, **heads: Any) -> list[str]:
        return super().head_names(**{"next_sentence": False, **heads})

    @classmethod
    def uses_pooler(cls, next_sentence: bool = False, **heads: Any) -> bool:
        return next_sentence
