"""The families of pretrained models, and how the text of each is read."""

import dataclasses
import inspect
from collections.abc import Callable

from keras_attn import defaults
from keras_attn.models import (
    GPT2,
    BertClassifier,
    BertEncoder,
    BertPretrainer,
    GPT2Classifier,
    GPT2LanguageModel,
    XLNet,
    XLNetClassifier,
    XLNetPretrainer,
)
from keras_attn.text.recipes import KINDS, Kind


@dataclasses.dataclass(frozen=True)
class Family:
    """A backbone, what is built on it, and how its text is read.

    Attributes:
        name: Of the backbone in the paths of weights, and in `keras_attn.convert`.
        pretraining, kind: Of the runs that pretrain it, and of those of its classifiers.
        backbone, pretrainer, classifier: Classes.
        defaults: Function that returns the config of pretraining.
        tokenizers: Kind of its tokenizer.
        poolers: Poolings that take a dense layer of the backbone.
    """

    name: str
    pretraining: str
    kind: str
    backbone: type
    pretrainer: type
    classifier: type
    defaults: Callable
    tokenizers: Kind
    poolers: tuple = ()

    def prefix(self, kind):
        """What the paths of a run of a kind begin with in a checkpoint."""
        task = self.classifier if kind == self.kind else self.pretrainer
        return f"model/{inspect.signature(task).parameters['name'].default}/"

    def read_tokenizer(self, folder, data):
        """The tokenizer in a workdir, by the `data` of its config."""
        tokenizer = self.tokenizers.read(folder, bool(data.get("lowercase")))
        if data.get("end_mark") is False:  # of transformers' classifiers of GPT-2
            tokenizer.end_mark = False
        return tokenizer

    def build_pretrainer(self, architecture, dtype="float32", seed=None):
        """What pretrains, by the arguments of its backbone; not for BERT."""
        model = self.pretrainer(self.backbone(**architecture, dtype=dtype, seed=seed), dtype=dtype)
        model.build()
        return model


BERT = Family(
    "bert_encoder", "pretraining", "finetuning", BertEncoder, BertPretrainer, BertClassifier,
    defaults.pretraining_defaults, KINDS["word_pieces"], ("cls",))
GPT_2 = Family(
    "gpt2", "language_modeling", "gpt2_finetuning", GPT2, GPT2LanguageModel, GPT2Classifier,
    defaults.language_modeling_defaults, KINDS["byte_pairs"])
XL_NET = Family(
    "xlnet", "permutation_modeling", "xlnet_finetuning", XLNet, XLNetPretrainer, XLNetClassifier,
    defaults.permutation_modeling_defaults, KINDS["sentence_pieces"], ("cls",))
OTHERS = GPT_2, XL_NET


def family_of_kind(kind):
    """The one of `OTHERS` that has runs of a kind; else BERT."""
    for family in OTHERS:
        if kind in (family.kind, family.pretraining):
            return family
    return BERT
