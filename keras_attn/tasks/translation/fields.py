"""Translation: config fields and options."""

from keras_attn.declarations import TABLES, Option, TaskFields
from keras_attn.errors import PRECISIONS
from keras_attn.field import Field
from keras_attn.shared_fields import (
    CHECKPOINT,
    EVAL,
    MAX_LINE,
    TEXT,
    TRAINING,
    family_field,
    run_fields,
)
from keras_attn.tasks.finetuning.fields import PATIENCE, metric_field

METRICS = ("bleu", "chrf")

_PARALLEL = {
    "source": Field(
        str,
        "source text: a file with one sentence per line, a glob, a comma-separated list, or - "
        "for standard input; if target is unset, a table or tfds:NAME[:SPLIT]",
    ),
    "target": Field(
        str, "target text, aligned with source line by line; if unset, from the source table"
    ),
}
DATA = {
    "task": Field("translation", "training objective: translation"),
    "train": _PARALLEL,
    "validation": _PARALLEL,
    "source_column": Field("source", "source column of a table; TFDS: the source language"),
    "target_column": Field("target", "target column of a table; TFDS: the target language"),
    "format": Field(
        str,
        "format of a table: tsv, quoted_tsv, csv, jsonl or parquet; if unset, detected from "
        "the file name",
    ),
    "header": Field(
        bool,
        "whether the first line contains the column names; if unset, True if columns are "
        "given by name",
        chosen=True,
    ),
    "encoding": TEXT["encoding"],
    "on_bad_text": Field(
        "error",
        "how to handle undecodable text, unpaired sentences and sentences longer than "
        "data.length: error (stop) or skip (leave out and count)",
        choices=("error", "skip"),
    ),
    "max_line": MAX_LINE,
    "vocab": Field(
        str, "SentencePiece model; if unset, from `pretrained`, else trained on data.train"
    ),
    "vocab_size": Field(
        8000, "vocabulary size of a newly trained tokenizer, joint for both languages", above=0
    ),
    "subwords": Field(
        "bpe", "algorithm of a newly trained tokenizer: bpe or unigram", choices=("bpe", "unigram")
    ),
    "length": Field(
        256,
        "maximum length of source and target in tokens, with the end-of-sequence token",
        above=0,
    ),
    "limit": Field(
        int, "number of training sentence pairs, sampled with train.seed; if unset, all", above=0
    ),
}
_TRANSLATING = {
    **{name: entry for name, entry in TRAINING.items() if name != "batch_size"},
    "batch_tokens": Field(
        4096,
        "global batch size: maximum number of tokens of the longer side per optimizer step, "
        "with padding, over all devices and micro-batches",
        above=0,
    ),
    "beta_2": Field(
        0.98, "beta_2 of the optimizer: decay rate of the second moment", low=0, below=1
    ),
    "schedule": Field(
        "inverse_sqrt",
        "learning rate schedule after warmup: inverse_sqrt, linear, cosine, constant or wsd",
        choices=TRAINING["schedule"].choices,
    ),
}
_DECODING = {
    **EVAL,
    "batch_size": Field(32, "batch size of evaluation, in sentences", above=0, resume="any"),
    "metric": metric_field(METRICS, "the last weights, or the mean of checkpoint.average"),
    "patience": PATIENCE,
    "beam": Field(4, "beam size; 1: greedy decoding", above=0, resume="any"),
    "length_penalty": Field(
        0.6,
        "length penalty of the beam search (GNMT); higher values favor longer translations",
        low=0,
        resume="any",
    ),
    "lowercase": Field(False, "whether BLEU and chrF are case-insensitive", resume="any"),
    "tokenize": Field("13a", "sacrebleu tokenizer of BLEU; none for tokenized text", resume="any"),
}


def _config(family):
    return {
        **run_fields("the workdir of a translation model"),
        "data": DATA,
        "model": {**family_field(family), **family.model},
        "train": _TRANSLATING,
        "eval": _DECODING,
        "checkpoint": {
            **CHECKPOINT,
            "average": Field(
                1,
                "checkpoint averaging: number of newest checkpoints, at multiples of "
                "checkpoint.every, whose mean is the final model; 1: none",
                above=0,
                resume="any",
            ),
        },
    }


_LENGTH_PENALTY = Option(
    float,
    "Length penalty of the beam search (translation); if unset, eval.length_penalty of the run.",
)
FIELDS = TaskFields(
    command="finetune",
    family="transformer",
    config=_config,
    names=("translation",),
    metrics=METRICS,
    data="source",
    loaded="keras_attn.tasks.translation.translator.Translator",
    formats={"evaluate": tuple(name for name in TABLES if name != "label_text")},
    options={
        "evaluate": {
            "source": Option(str, "Source text (translation), instead of --data.", reads=True),
            "target": Option(
                str,
                "Reference translations, aligned with --source line by line (translation).",
                reads=True,
            ),
            "beam": Option(int, "Beam size (translation); if unset, eval.beam of the run.", low=1),
            "length_penalty": _LENGTH_PENALTY,
            "precision": Option(
                str, "Precision of inference (translation); if unset, float32.", choices=PRECISIONS
            ),
        },
        "export": {
            "beam": Option(int, "Beam size (translation); if unset, eval.beam of the run.", low=1),
            "length_penalty": _LENGTH_PENALTY,
        },
    },
)
