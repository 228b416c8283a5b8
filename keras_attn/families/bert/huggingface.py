"""Checkpoints of `transformers`: config.json, safetensors and the files of the tokenizer."""

import os

from keras_attn.errors import UserError
from keras_attn.families.bert.family import FAMILY
from keras_attn.families.bert.tensors import (
    MASKED_LM,
    PRE_NORM_MASKED_LM,
    check_writable,
    encoder_prefix,
    model_tensors,
)
from keras_attn.families.encoder_folders import DEFAULTS, NEEDED, EncoderFolders
from keras_attn.io.json_files import read_object

_NEXT = "cls.seq_relationship.weight"


class _Bert(EncoderFolders):
    """BERT, or its graph with pre-norm, in `transformers`."""

    def has_pooler(self, task, heads, header):
        head = self.family.model_class(task)
        return (head is not None and head.uses_pooler(**heads)) or any(
            name.endswith("pooler.dense.weight") for name in header
        )

    def check_writable(self, trained):
        check_writable(trained, "transformers", **self.fixed)

    def settings(self, trained):
        return {**super().settings(trained), "position_embedding_type": "absolute"}


class _PostNorm(_Bert):
    def masked_lm_heads(self, model, config, header, architecture):
        heads = super().masked_lm_heads(model, config, header, architecture)
        # bert-base-uncased names BertForMaskedLM, but has all tensors of BertForPreTraining.
        return {**heads, "next_sentence": model == "BertForPreTraining" or _NEXT in header}

    def model_of(self, trained):
        if trained.task != "masked_lm":
            return super().model_of(trained)
        if trained.heads["next_sentence"]:
            return "BertForPreTraining"
        if trained.architecture["use_pooler"]:
            raise UserError(
                "transformers has no masked language model with a pooler but without "
                "next-sentence prediction. Received: next_sentence=False, use_pooler=True"
            )
        return "BertForMaskedLM"


class _PreNorm(_Bert):
    def settings(self, trained):
        tokenizer = trained.tokenizer
        ends = {"bos_token_id": tokenizer.cls_id, "eos_token_id": tokenizer.sep_id}
        return {**super().settings(trained), **ends}


def _folders(kind, norm_first, **arguments):
    return kind(
        family=FAMILY,
        tensors=model_tensors,
        prefix=encoder_prefix({"norm_first": norm_first}),
        fixed={"norm_first": norm_first},
        needed=NEEDED,
        dropout="classifier_dropout",
        **arguments,
    )


_POST_NORM = _folders(
    _PostNorm,
    False,
    model_type="bert",
    classes="Bert",
    own={
        "BertForPreTraining": "masked_lm",
        "BertForMaskedLM": "masked_lm",
        "BertModel": "backbone",
    },
    masked_lm=MASKED_LM,
    defaults=DEFAULTS,
)
_PRE_NORM = _folders(
    _PreNorm,
    True,
    model_type="roberta-prelayernorm",
    classes="RobertaPreLayerNorm",
    own={"RobertaPreLayerNormForMaskedLM": "masked_lm", "RobertaPreLayerNormModel": "backbone"},
    masked_lm=PRE_NORM_MASKED_LM,
    defaults={**DEFAULTS, "vocab_size": 50265, "pad_token_id": 1},
    mlm_activation="gelu_erf",  # whatever `hidden_act`
    skips_positions=True,
)


def read(folder, config=None):
    """Reads a folder; see `keras_attn.families.encoder_folders.EncoderFolders.read`."""
    config = config or read_object(os.path.join(folder, "config.json"))
    pre_norm = config.get("model_type") == _PRE_NORM.model_type
    return (_PRE_NORM if pre_norm else _POST_NORM).read(folder, config)


def write(folder, trained):
    """Writes a folder; see `keras_attn.families.encoder_folders.EncoderFolders.write`."""
    _folders_of(trained).write(folder, trained)


def layout_of(trained):
    """Returns the layout of a `TrainedModel`, `{our path: [ExternalTensor, …]}`."""
    return _folders_of(trained).layout_of(trained)


def _folders_of(trained):
    return _PRE_NORM if trained.architecture["norm_first"] else _POST_NORM
