"""The family of RoBERTa."""

from keras_attn.families.architecture_choice import encoder_defaults, named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.huggingface_tensors import variable_shapes
from keras_attn.families.roberta.tensors import model_tensors
from keras_attn.models import (
    BertEncoder,
    BertPretrainer,
    BertQuestionAnswerer,
    RobertaClassifier,
)
from keras_attn.models.bert import BERT_SIZES
from keras_attn.registry import TASKS
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class RobertaFamily(Family):
    """RoBERTa (Liu et al., 2019)."""

    name, title = "roberta", "RoBERTa"
    backbone, backbone_name = BertEncoder, "roberta_encoder"
    task_models = {
        "masked_lm": BertPretrainer,
        "classification": RobertaClassifier,
        "span_qa": BertQuestionAnswerer,
        "backbone": None,
    }
    tokenizers = TOKENIZER_TYPES["roberta_bpe"]
    sizes = named_sizes(BERT_SIZES)
    free_arguments = ("dropout", "initial_attention", "initializer_range")
    position_embedding_path = "roberta_encoder/position_embedding/embeddings"

    def default_arguments(self, run, shape):
        return {
            **encoder_defaults(shape),
            "num_segments": 1,
            "activation": "gelu_erf",
            "norm_first": False,
            "layer_norm_epsilon": 1e-5,
        }

    def shapes(self, task, architecture, heads):
        known = task == "masked_lm" or TASKS[task].head_layers(heads) is not None
        return variable_shapes(model_tensors(architecture, task, heads)) if known else None


FAMILY = RobertaFamily()
