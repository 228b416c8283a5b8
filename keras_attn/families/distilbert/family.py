"""The family of DistilBERT."""

from keras_attn.families.architecture_choice import encoder_defaults, named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.distilbert.tensors import model_tensors
from keras_attn.families.huggingface_tensors import variable_shapes
from keras_attn.models import (
    BertEncoder,
    BertPretrainer,
    BertQuestionAnswerer,
    DistilBertClassifier,
)
from keras_attn.models.bert import BERT_SIZES
from keras_attn.registry import TASKS
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES

# Half as many layers as BERT, and no segment embeddings.
SIZES = {size: (layers // 2, *shape) for size, (layers, *shape) in BERT_SIZES.items()}
FIXED = {"num_segments": 0, "norm_first": False, "layer_norm_epsilon": 1e-12}


class DistilBertFamily(Family):
    """DistilBERT (Sanh et al., 2019)."""

    name, title = "distilbert", "DistilBERT"
    backbone, backbone_name = BertEncoder, "distilbert_encoder"
    task_models = {
        "masked_lm": BertPretrainer,
        "classification": DistilBertClassifier,
        "span_qa": BertQuestionAnswerer,
        "backbone": None,
    }
    tokenizers = TOKENIZER_TYPES["wordpiece"]
    sizes = named_sizes(SIZES)
    free_arguments = ("dropout", "initial_attention", "initializer_range")
    position_embedding_path = "distilbert_encoder/position_embedding/embeddings"

    def default_arguments(self, run, shape):
        return {**encoder_defaults(shape), **FIXED, "activation": "gelu_erf"}

    def shapes(self, task, architecture, heads):
        known = task == "masked_lm" or TASKS[task].head_layers(heads) is not None
        return variable_shapes(model_tensors(architecture, task, heads)) if known else None


FAMILY = DistilBertFamily()
