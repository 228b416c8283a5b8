"""The family of ModernBERT."""

from keras_attn.families.architecture_choice import encoder_defaults, named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.huggingface_tensors import variable_shapes
from keras_attn.families.layer_memory import LayerMemory, feed_forward_dim, layer_values
from keras_attn.families.modernbert.tensors import model_tensors
from keras_attn.models import (
    BertPretrainer,
    ModernBertClassifier,
    ModernBertEncoder,
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
        "masked_lm": BertPretrainer,
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
        return {name: defaults[name] for name in ("dropout", "initializer_range")}

    def shapes(self, task, architecture, heads):
        known = task == "masked_lm" or TASKS[task].head_layers(heads) is not None
        return variable_shapes(model_tensors(architecture, task, heads)) if known else None

    def memory(self, task, architecture, heads, length, targets):
        # A local layer has logits of three blocks of keys for each query.
        seen = min(length, 3 * max(architecture["window"] // 2, 32))
        layers, hidden_dim = architecture["num_layers"], architecture["hidden_dim"]
        everywhere = -(-layers // architecture["local_every"])
        inner = feed_forward_dim(architecture)
        # The gate has as many values as the hidden units.
        of_global, of_local = (
            layer_values(architecture, length, keys) + 2 * length * inner for keys in (length, seen)
        )
        kernels = 4 * hidden_dim**2 + 3 * hidden_dim * inner
        return LayerMemory(
            parameters=layers * kernels + architecture["vocabulary_size"] * hidden_dim,
            inputs=layers * length * hidden_dim,
            activations=int(everywhere * of_global + (layers - everywhere) * of_local),
            layer=int(of_global),
        )


FAMILY = ModernBertFamily()
