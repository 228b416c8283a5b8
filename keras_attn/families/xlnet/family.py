"""The family of XLNet."""

from keras_attn.families.architecture_choice import (
    classifier_architecture,
    pretraining_architecture,
)
from keras_attn.families.contract import Family
from keras_attn.families.step_memory import encoder_memory
from keras_attn.models import XLNet, XLNetClassifier, XLNetPretrainer
from keras_attn.models.xlnet import XLNET_SIZES
from keras_attn.text.recipes import KINDS

_USUAL = {"dropout": 0.0, "memory_length": 0, "initializer_range": 0.02}
_FREE = ("memory_length", "max_distance")  # no weight depends on them


class XLNetFamily(Family):
    """XLNet (Yang et al., 2019)."""

    name, title = "xlnet", "XLNet"
    backbone, backbone_name = XLNet, "xlnet"
    task_models = {"permutation_lm": XLNetPretrainer, "classification": XLNetClassifier}
    tokenizers = KINDS["sentence_pieces"]
    sizes = XLNET_SIZES
    poolers = ("cls",)
    unpretrained_heads = ("pooler",)

    def choose_architecture(self, run, use_pooler=False):
        if not run.task.pretrains:
            return classifier_architecture(
                run, self, use_pooler=use_pooler, memory_length=0)
        return pretraining_architecture(run, self, _USUAL, _FREE)

    def memory(self, architecture, length, targets):
        # The query stream has the rows that are predicted.
        return encoder_memory(
            architecture, length, memory=architecture.get("memory_length") or 0,
            streams=1 + targets / length, relative=True)


FAMILY = XLNetFamily()
