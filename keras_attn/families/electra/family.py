"""The family of ELECTRA."""

import dataclasses

from keras_attn.families.architecture_choice import encoder_defaults, named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.electra.tensors import model_tensors
from keras_attn.families.huggingface_tensors import variable_shapes
from keras_attn.families.layer_memory import embedding_dim, encoder_memory
from keras_attn.models import (
    BertPretrainer,
    BertQuestionAnswerer,
    ElectraClassifier,
    ElectraEncoder,
    ElectraPretrainer,
)
from keras_attn.models.electra import ELECTRA_SIZES, EMBEDDING_DIMS
from keras_attn.registry import TASKS
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class ElectraFamily(Family):
    """ELECTRA (Clark et al., 2020)."""

    name, title = "electra", "ELECTRA"
    backbone, backbone_name = ElectraEncoder, "electra_encoder"
    task_models = {
        "replaced_tokens": ElectraPretrainer,
        "masked_lm": BertPretrainer,
        "classification": ElectraClassifier,
        "span_qa": BertQuestionAnswerer,
        "backbone": None,
    }
    tokenizers = TOKENIZER_TYPES["wordpiece"]
    sizes = {
        size: {
            **shape,
            **({"embedding_dim": EMBEDDING_DIMS[size]} if size in EMBEDDING_DIMS else {}),
        }
        for size, shape in named_sizes(ELECTRA_SIZES).items()
    }
    free_arguments = ("dropout", "initial_attention", "initializer_range")
    position_embedding_path = "electra_encoder/position_embedding/embeddings"

    def default_arguments(self, run, shape):
        defaults = encoder_defaults(shape)
        return {**defaults, "activation": "gelu_erf", "layer_norm_epsilon": 1e-12}

    def memory(self, task, architecture, heads, length, targets):
        layers = encoder_memory(architecture, length)
        fraction = heads.get("generator_fraction") if task == "replaced_tokens" else None
        if fraction is None:
            return layers
        generator = encoder_memory(
            ElectraPretrainer.generator_arguments(architecture, fraction), length
        )
        rows = architecture["vocabulary_size"] + architecture["max_length"]
        # The logits and the Gumbel noise of the samples exist at the same time.
        sampled = 2 * targets * architecture["vocabulary_size"]
        return dataclasses.replace(
            layers,
            parameters=layers.parameters
            + generator.parameters
            - rows * embedding_dim(architecture),  # shared
            inputs=layers.inputs + generator.inputs + sampled,
            activations=layers.activations + generator.activations + sampled,
        )

    def shapes(self, task, architecture, heads):
        own = task in ("masked_lm", "replaced_tokens")
        known = own or TASKS[task].head_layers(heads) is not None
        return variable_shapes(model_tensors(architecture, task, heads)) if known else None


FAMILY = ElectraFamily()
