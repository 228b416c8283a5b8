"""The families of pretrained models that texts are classified with."""

import dataclasses
from collections.abc import Callable

from keras_attn.errors import UserError
from keras_attn.jobs import choices
from keras_attn.models import (
    GPT2,
    BertClassifier,
    BertEncoder,
    GPT2Classifier,
    XLNet,
    XLNetClassifier,
)
from keras_attn.text import sentence_pieces
from keras_attn.text.byte_pairs import BytePairTokenizer
from keras_attn.text.vocabulary import train_vocabulary
from keras_attn.workdir import kind_of, run_folder


@dataclasses.dataclass(frozen=True)
class Family:
    """A backbone, what classifies with it, and how its text is read.

    Attributes:
        name: Of the backbone in the paths of weights.
        kind: Of the runs of its classifiers.
        pretraining: Of the runs that pretrain it.
        backbone, classifier: Classes.
        files: Of its tokenizer, in a workdir.
        read: Function of a folder and whether text is lower-cased, to the tokenizer.
        poolers: Poolings that take a dense layer of the backbone.
    """

    name: str
    kind: str
    pretraining: str
    backbone: type
    classifier: type
    files: tuple
    read: Callable
    poolers: tuple = ()


BERT = Family("bert_encoder", "finetuning", "pretraining", BertEncoder, BertClassifier,
              ("vocab.txt",), None, ("cls",))
OTHERS = (
    Family("gpt2", "gpt2_finetuning", "language_modeling", GPT2, GPT2Classifier,
           ("vocab.json", "merges.txt"), lambda folder, _: BytePairTokenizer.read(folder)),
    Family("xlnet", "xlnet_finetuning", "permutation_modeling", XLNet, XLNetClassifier,
           (sentence_pieces.FILE,), sentence_pieces.SentencePieceTokenizer.read, ("cls",)),
)


def family_of(*folders):
    """The family of the first of some folders that holds a run of one of `OTHERS`; else BERT."""
    for folder in folders:
        kind = folder and kind_of(run_folder(str(folder)))
        for family in OTHERS:
            if kind in (family.kind, family.pretraining):
                return family
    return BERT


def choose_architecture(run, family):
    """Arguments of the backbone of a classifier, but for `vocabulary_size` of a BERT.

    Args:
        run: `Run`.
        family: `Family`.
    """
    pooled = run.config.model.pooling in family.poolers
    if family is BERT:
        return choices.choose_architecture(run, use_pooler=pooled)
    _check(run, family)
    if run.resumed:
        return dict(run.saved["architecture"])
    architecture = {**run.pretrained.architecture, "dropout": run.config.model.dropout,
                    "attention_dropout": None}  # the same
    if family.poolers:
        architecture.update(use_pooler=pooled, memory_length=0)
    most = architecture.get("max_length", run.config.data.length)
    if run.config.data.length > most:
        raise UserError("data.length must not exceed the position table of the model. Received: "
                        f"data.length={run.config.data.length}, max_length={most}")
    return architecture


def choose_tokenizer(run, family, texts):
    """Writes the tokenizer of a new run and returns it.

    Args:
        run: `Run`.
        family: `Family`.
        texts: Function that returns the texts to train a vocabulary on, where none is given.
    """
    data = run.config.data
    if family is BERT:
        return choices.choose_tokenizer(
            run, lambda: train_vocabulary(texts(), data.vocab_size, data.lowercase))
    if run.chief and not run.resumed:
        run.pretrained.tokenizer.write(run.workdir.path)
    run.meet()
    return family.read(run.workdir.path, data.lowercase)


def _check(run, family):
    data, model = run.config.data, run.config.model
    if not (run.resumed or run.pretrained):
        raise UserError(f"Weights of a {family.backbone.__name__} to start from are needed: "
                        "--pretrained. Received: none")
    for name, value in {"data.vocab": data.vocab, "model.size": model.size}.items():
        if value is not None:
            raise UserError(f"{name} must be left out: it is that of the pretrained model. "
                            f"Received: {name}={value}")
    if data.pack > 1:
        raise UserError(f"data.pack must be 1 with {family.backbone.__name__}. "
                        f"Received: data.pack={data.pack}")
