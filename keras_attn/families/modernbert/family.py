"""The family of ModernBERT."""

import inspect

from keras_attn.families.architecture_choice import encoder_defaults, named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.huggingface_tensors import variable_shapes
from keras_attn.families.modernbert.fields import FIELDS
from keras_attn.families.modernbert.tensors import model_tensors
from keras_attn.models import (
    ModernBertClassifier,
    ModernBertEncoder,
    ModernBertPretrainer,
    ModernBertQuestionAnswerer,
    ModernBertTokenClassifier,
)
from keras_attn.models.modernbert import MODERNBERT_SIZES
from keras_attn.registry import TASKS
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class ModernBertFamily(Family):
    """ModernBERT (Warner et al., 2024)."""

    name, title = "modernbert", "ModernBERT"
    backbone, backbone_name = ModernBertEncoder, "modernbert_encoder"
    task_models = {
        "masked_lm": ModernBertPretrainer,
        "classification": ModernBertClassifier,
        "span_qa": ModernBertQuestionAnswerer,
        "tagging": ModernBertTokenClassifier,
        "backbone": None,
    }
    tokenizers = TOKENIZER_TYPES["modernbert_bpe"]
    sizes = named_sizes(MODERNBERT_SIZES)
    # Rotary positions need no weights, so a longer context may have other bases.
    free_arguments = (
        "dropout",
        "initializer_range",
        "max_length",
        "rotary_base",
        "local_rotary_base",
    )

    def default_arguments(self, run, shape):
        defaults = encoder_defaults(shape)
        names = inspect.signature(ModernBertEncoder).parameters
        own = {name: names[name].default for name in FIELDS.model if name in names}
        return {
            **{name: value for name, value in own.items() if value is not inspect.Parameter.empty},
            "positions": "rotary",
            "feed_forward": "geglu",
            "intermediate_dim": 3 * shape["hidden_dim"] // 2,
            "initializer_range": defaults["initializer_range"],
        }

    def shapes(self, task, architecture, heads):
        known = task == "masked_lm" or TASKS[task].head_layers(heads) is not None
        return variable_shapes(model_tensors(architecture, task, heads)) if known else None


FAMILY = ModernBertFamily()
