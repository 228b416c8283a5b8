"""The family of XLNet."""

from keras_attn.families.architecture_choice import named_sizes
from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import encoder_memory
from keras_attn.models import XLNet, XLNetClassifier, XLNetPretrainer
from keras_attn.models.xlnet import XLNET_SIZES
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


class XLNetFamily(Family):
    """XLNet (Yang et al., 2019)."""

    name, title = "xlnet", "XLNet"
    backbone, backbone_name = XLNet, "xlnet"
    task_models = {"permutation_lm": XLNetPretrainer, "classification": XLNetClassifier}
    tokenizers = TOKENIZER_TYPES["sentencepiece"]
    sizes = named_sizes(XLNET_SIZES)
    free_arguments = ("dropout", "initializer_range", "memory_length", "max_distance")
    finetunes_from_scratch = False
    packs = False

    def default_arguments(self, run, shape):
        return {"dropout": 0.0, "memory_length": 0, "initializer_range": 0.02}

    def choose_architecture(self, run, use_pooler=False):
        architecture = super().choose_architecture(run, use_pooler)
        if not (run.task.pretrains or run.resumed):
            architecture["memory_length"] = 0  # labeled texts have no preceding text
        return architecture

    def memory(self, task, architecture, heads, length, targets):
        # The query stream contains only the predicted tokens.
        return encoder_memory(
            architecture,
            length,
            memory=architecture.get("memory_length") or 0,
            streams=1 + targets / length,
            relative=True,
        )


FAMILY = XLNetFamily()
