"""Translation: config fields and options."""

from keras_attn.declarations import Option, TaskFields
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
from keras_attn.tasks.finetuning.fields import CHOICE

METRICS = ("bleu", "chrf")

_PARALLEL = {
    "source": Field(
        str, "file of a sentence a line, glob, list with commas, or - for standard input; without "
        "a target a table, or tfds:NAME[:SPLIT]"),
    "target": Field(str, "the translations, line by line"),
}
DATA = {
    "task": Field("translation", "what is learnt"),
    "train": _PARALLEL,
    "validation": _PARALLEL,
    "source_column": Field("source", "of a table; of TFDS the language"),
    "target_column": Field("target", "likewise"),
    "format": Field(
        str, "of a table: tsv, quoted_tsv, csv, jsonl, parquet; without: by the file's name"),
    "header": Field(
        bool, "whether the first line names the columns; without: if columns are named",
        chosen=True),
    "encoding": TEXT["encoding"],
    "on_bad_text": Field(
        "error", "error, or skip: leave out and count bytes that are no text, sentences without "
        "the other side and those over data.length", choices=("error", "skip")),
    "max_line": MAX_LINE,
    "vocab": Field(
        str, "sentencepiece model; without: that of `pretrained`, else trained on data.train"),
    "vocab_size": Field(
        8000, "subwords of one that is trained, of both languages together", above=0),
    "subwords": Field(
        "bpe", "kind of one that is trained: bpe or unigram", choices=("bpe", "unigram")),
    "length": Field(256, "tokens of a side at most, with the mark of its end", above=0),
    "limit": Field(int, "train on that many sentences, drawn by train.seed", above=0),
}
_TRANSLATING = {
    **{name: entry for name, entry in TRAINING.items() if name != "batch_size"},
    "batch_tokens": Field(
        4096, "tokens of a step's longer side at most, with padding, over all devices and "
        "micro-batches", above=0),
    "beta_2": Field(0.98, "of the optimizer", low=0, below=1),
    "schedule": Field(
        "inverse_sqrt", "inverse_sqrt, linear, cosine or constant, after the warmup",
        choices=("linear", "cosine", "constant", "inverse_sqrt")),
}
_DECODING = {
    **EVAL,
    "batch_size": Field(32, "sentences translated together", above=0, resume="any"),
    "metric": Field(
        str, "keep the weights with which it was best in validation: bleu, chrf or loss; without: "
        "last ones, or the mean of checkpoint.average"),
    "patience": CHOICE["patience"],
    "beam": Field(4, "hypotheses of the beam search", above=0, resume="any"),
    "length_penalty": Field(
        0.6, "of the beam search: more favours longer translations", low=0, resume="any"),
    "lowercase": Field(
        False, "whether BLEU and chrF do not tell upper from lower case", resume="any"),
    "tokenize": Field(
        "13a", "of BLEU, as sacrebleu calls it; none for text that is tokenised", resume="any"),
}


def _config(family):
    return {
        **run_fields("the workdir of a translator"),
        "data": DATA, "model": {**family_field(family), **family.model}, "train": _TRANSLATING,
        "eval": _DECODING,
        "checkpoint": {**CHECKPOINT, "average": Field(
            1, "newest checkpoints at multiples of checkpoint.every whose mean is the model; as "
               "many are kept, with the optimizer's state", above=0, resume="any")},
    }


_LENGTH_PENALTY = Option(float, "Of a translator; without: that of its run.")
FIELDS = TaskFields(
    command="finetune",
    family="transformer",
    config=_config,
    names=("translation",),
    metrics=METRICS,
    data="source",
    options={
        "evaluate": {
            "source": Option(str, "Of a translator, in place of --data.", reads=True),
            "target": Option(
                str, "Of a translator: the translations, line by line.", reads=True),
            "beam": Option(int, "Of a translator; without: eval.beam of its run.", low=1),
            "length_penalty": _LENGTH_PENALTY,
            "precision": Option(str, "Of a translator; without: float32.", choices=PRECISIONS),
        },
        "export": {
            "beam": Option(
                int, "Of a translator: hypotheses of the beam search; without: eval.beam of its "
                "run.", low=1),
            "length_penalty": _LENGTH_PENALTY,
        },
    },
)
