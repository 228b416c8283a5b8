"""The family of BERT."""

from keras_attn.families.architecture_choice import encoder_defaults, named_sizes
from keras_attn.families.bert.tensors import PLAIN, model_tensors
from keras_attn.families.contract import Family
from keras_attn.families.huggingface_tensors import variable_shapes
from keras_attn.models import BertClassifier, BertEncoder, BertPretrainer, BertQuestionAnswerer
from keras_attn.models.bert import BERT_SIZES
from keras_attn.models.bert.encoder import LOCAL_EVERY, WINDOW
from keras_attn.registry import TASKS
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class BertFamily(Family):
    """BERT (Devlin et al., 2018)."""

    name, title = "bert", "BERT"
    backbone, backbone_name = BertEncoder, "bert_encoder"
    task_models = {
        "masked_lm": BertPretrainer,
        "classification": BertClassifier,
        "span_qa": BertQuestionAnswerer,
        "backbone": None,
    }
    tokenizers = TOKENIZER_TYPES["wordpiece"]
    sizes = named_sizes(BERT_SIZES)
    free_arguments = ("dropout", "initial_attention", "initial_outputs", "initializer_range")
    released_pooling = "mean"  # docs/finetuning_defaults.md
    position_embedding_path = "bert_encoder/position_embedding/embeddings"

    def default_arguments(self, run, shape):
        defaults = {**encoder_defaults(shape), "activation": "gelu_tanh", "norm_first": True}
        local = "local_every" in shape or "window" in shape
        if local:
            defaults |= {"local_every": LOCAL_EVERY, "window": WINDOW}
        if local or shape.get("positions") == "rotary":
            defaults["initial_attention"] = "uniform"  # neighbours need learned positions
        return defaults

    def shapes(self, task, architecture, heads):
        known = task == "masked_lm" or TASKS[task].head_layers(heads) is not None
        known = known and all(architecture.get(name, x) == x for name, x in PLAIN.items())
        return variable_shapes(model_tensors(architecture, task, heads)) if known else None


FAMILY = BertFamily()
