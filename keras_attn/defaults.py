"""Every field of a run's config: its default, or its type if it has none, and what it means."""

import math

import ml_collections
from ml_collections.config_dict import placeholder

ENDS = "steps", "epochs", "minutes"  # fields of `train` that end a run, one of them
# Fields that a run chooses where they are unset, from the model, the data and the machine.
CHOSEN = ("train.learning_rate", "train.steps", "train.epochs", "train.minutes",
          "train.accumulate", "data.length", "data.windows", "data.segments", "data.header",
          "model.pooling")
# If none of them is given.
PRETRAINING_MINUTES = 5.0
# Numbers that must be above 0, and those that may be 0.
POSITIVE = (
    "train.steps", "train.epochs", "train.minutes", "train.batch_size", "train.batch_tokens",
    "train.accumulate", "train.learning_rate", "eval.batch_size", "eval.limit", "eval.patience",
    "eval.beam", "checkpoint.every", "checkpoint.keep", "checkpoint.average", "data.length",
    "data.pack", "data.limit", "data.max_line", "data.vocab_size", "data.max_question",
    "data.stride", "data.max_answer", "model.initializer_range")
NOT_NEGATIVE = (
    "train.weight_decay", "train.clip_norm", "train.seed", "train.warmup_fraction", "train.freeze",
    "train.beta_2", "eval.every", "eval.length_penalty", "data.holdout", "data.seed",
    "data.windows", "model.dropout", "model.attention_dropout", "model.label_smoothing")


def _run(source):
    return {"pretrained": (str, f"weights to start from: {source}; without: random ones"),
            "workdir": (str, "folder of the run")}


def _of_libraries(names):
    return f"a workdir, a folder of {names}, or hf:NAME"


_MAX_LINE = (int, "bytes of the longest line of a table or of the longest record; longer ones are "
                  "bad text; unset: 16 MiB. Longer lines of plain text are split in pretraining")
_TEXT = {
    "encoding": ("utf-8", "of the files"),
    "on_bad_text": ("error", "error, or skip: leave out and count"),
    "max_line": _MAX_LINE,
    "vocab": (str, "vocabulary file, or a folder with it; without: that of `pretrained` or of the "
                   "prepared folder data.train, else trained on data.train"),
    "vocab_size": (8192, "word pieces of a vocabulary that is trained"),
    "lowercase": (bool, "without: as `pretrained` or the prepared folder data.train, else True"),
    "length": (128, "tokens of a row"),
    "pack": (1, "examples that share a row at most, for less padding where they are short; in "
                "finetuning a batch still has batch_size examples"),
}
_UNLABELLED = {
    "train": ("docstrings", "docstrings, files, globs, a list with commas, - for standard input, "
                            "tfds:NAME[:SPLIT], a prepared folder, or TFRecords of "
                            "google-research/bert"),
    "validation": (str, "as data.train; without: other docstrings for docstrings, else none"),
    "format": ("auto", "lines, paragraphs, jsonl, csv, tsv, quoted_tsv, parquet, tfrecord; auto: "
                       "by the file's name, or its text"),
    "field": ("text", "field of JSON records and TFDS, or column of a table, that holds the text"),
}
_MASKED = {
    **_UNLABELLED,
    **_TEXT,
    "max_predictions": (int, "masked tokens of a row at most; without: masked_fraction of length"),
    "masked_fraction": (0.15, "share of tokens to predict"),
    "short_fraction": (0.1, "share of rows made shorter at random"),
    "whole_words": (False, "mask whole words"),
    "spans": (False, "mask spans of whole words (SpanBERT)"),
    "segments": (str, "of a row: next_sentence; sentence_order: two, half of them swapped "
                      "(ALBERT); full_sentences: one (RoBERTa); unset: next_sentence, or "
                      "full_sentences where documents have one sentence"),
}
_LABELLED = {
    "task": (str, "single_label, multilabel or regression; reading_comprehension: find answers in "
                  "passages, from files of SQuAD; or a GLUE task, which sets columns, labels and "
                  "metrics; without: single_label"),
    "train": (str, "docstrings, file, glob, list with commas, - for standard input (with "
                   "data.format), tfds:NAME[:SPLIT], or the folder of data.task; without: "
                   "data.task in TFDS"),
    "validation": (str, "as data.train (a TFDS name without a split: its validation); without: "
                        "that of docstrings, or of data.task where data.train is a folder or "
                        "left out; else data.holdout"),
    "holdout": (0.1, "share of the rows, or questions, of data.train kept for validation where "
                     "there is no other; 0: none"),
    "text": (str, "column of the text: a name, or a number from 0"),
    "text_pair": (str, "column of the second text"),
    "label": (str, "column of the label; of multilabel a JSON list, or labels with "
                   "data.label_separator"),
    "label_separator": (",", "between the labels of a row of multilabel"),
    "positive": (str, "of two classes, the one that f1 is of; without: the second by alphabet"),
    "regression": (False, "as data.task=regression"),
    "format": (str, "tsv, quoted_tsv (with CSV's quotes), csv, jsonl, parquet, label_text; "
                    "without: by the file's name"),
    "header": (bool, "whether the first line names the columns; without: if columns are named"),
    "limit": (int, "train on that many rows, drawn by data.seed"),
    "seed": (int, "of the rows drawn and held out; without: train.seed, the first of several"),
    "windows": (int, "read longer texts in windows of data.length tokens that share this many, "
                     "and average their probabilities; if unset, used where more than "
                     "5 % of the texts exceed the model's positions"),
    "by_length": (bool, "batches of texts of similar length, for less padding; of all lengths they "
                        "learn sooner; without: True unless packed"),
    **_TEXT,
    "length": (int, "tokens of a row at most; if unset, the longest text, up to the model's "
                    "positions (reading_comprehension: 384)"),
    "max_question": (64, "tokens of a question at most, in reading_comprehension"),
    "stride": (int, "tokens from one window of a long passage to the next, in "
                    "reading_comprehension; without: 128, or half a window if that is less"),
    "max_answer": (30, "tokens of an answer at most, in reading_comprehension"),
}
_BERT = {
    "size": (str, "tiny, mini, small, medium, base, large; without: that of `pretrained` or tiny"),
    "num_layers": (int, "this and the widths; without: those of the size"),
    "hidden_dim": (int, "width"),
    "num_heads": (int, "attention heads of a layer"),
    "intermediate_dim": (int, "width inside the feed-forward part"),
    "max_length": (int, "positions; without: 512"),
    "activation": (str, "gelu_tanh or gelu_erf; without: gelu_tanh"),
    "norm_first": (bool, "norm before each part, not after; without: True (BERT: False)"),
    "initial_attention": (str, "neighbours or uniform; without: neighbours (BERT: uniform)"),
    "initializer_range": (float, "spread of first weights; without: 0.8 / sqrt(hidden_dim), at "
                                 "most 0.05"),
    "next_sentence": (bool, "learn next sentences, or their order; without: as `pretrained`, else "
                            "where rows have two segments"),
    "new_heads": (False, "start heads that `pretrained` lacks at random"),
    "initial_embeddings": ("cooccurrences", "of tokens without `pretrained`: from what occurs "
                                            "near each in data.train, or random as BERT"),
    "initial_bias": ("frequencies", "of the masked-LM output: log frequencies, or zeros as BERT"),
    "dropout": (float, "share of values set to 0 in training; without: that of `pretrained`, or "
                       "0 (BERT: 0.1)"),
}
_CLASSIFIER = {
    "size": (str, "without `pretrained`: tiny, mini, small, medium, base or large; tiny"),
    "dropout": (0.1, "share of values set to 0 in training"),
    "pooling": (str, "cls: the first token (GPT-2 and XLNet: the last), or mean: of all tokens; "
                     "if unset, as the pretrained classifier; cls for released models; else mean"),
    "new_heads": (False, "start the pooler at random where `pretrained` lacks it"),
}
_TRAINING = {
    "steps": (int, "length of the run: one of steps, epochs and minutes; that of the command line "
                   "takes the place of the config's"),
    "epochs": (float, "passes over data.train"),
    "minutes": (float, "of training, over all restarts"),
    "batch_size": (32, "rows of a step, over all devices and micro-batches"),
    "learning_rate": (2e-3, "its peak"),
    "warmup_fraction": (0.1, "share of the run in which the learning rate rises"),
    "schedule": ("linear", "linear, cosine, constant or inverse_sqrt, after the warmup"),
    "optimizer": ("adamw", "adamw or lamb"),
    "weight_decay": (0.01, "of all but biases and norms"),
    "clip_norm": (1.0, "largest norm of all gradients together; 0: any"),
    "seed": (0, "of weights, order, masks and dropout"),
    "accumulate": (int, "micro-batches of a step: less memory, the same result but for dropout "
                        "masks; without: the fewest with which a step fits into free memory"),
    "remat": (False, "rematerialization: keep only the inputs of each layer for the gradient, and "
                     "compute the rest again; less memory, more time"),
    "precision": ("float32", "float32, mixed_bfloat16, or mixed_float16 for GPUs without bfloat16"),
    "jit": (False, "whether XLA compiles the step"),
}
_GENTLE = {
    "epochs": (float, "passes over data.train; if neither steps, epochs nor minutes are set, "
                      "chosen from the number of rows"),
    "learning_rate": (float, "peak; if unset, chosen from the size of the model and what "
                             "pretrained it"),
    "seeds": (1, "number of runs, with seeds from train.seed on; the results are their mean, "
                 "deviation and 95 % interval"),
    "class_weights": (False, "let each class weigh the same in loss and metrics of training"),
    "layer_decay": (1.0, "factor of the learning rate from each layer to the one below"),
    "freeze": (0, "lowest layers that stay as they are, and the embeddings with them"),
}
_SEARCH = {
    "learning_rates": (str, "such as 2e-5,3e-5,5e-5: try each, and take the best by eval.metric"),
    "batch_sizes": (str, "such as 16,32: likewise, with each learning rate"),
}
_CHECKPOINT = {
    "every": (int, "steps; without: five minutes"),
    "keep": (2, "how many of the newest stay"),
}
_EVAL = {
    "every": (0, "steps; 0: at the end only"),
    "batch_size": (64, "rows of a step of validation"),
}
_CHOICE = {
    "metric": (str, "keep the weights with which it was best in validation: accuracy, f1, "
                    "f1_macro, f1_micro, matthews, pearson, exact, …, loss; without: last ones"),
    "patience": (int, "end after that many evaluations without a better eval.metric; without: at "
                      "the end of the run"),
    "report": (True, "write report.html at the end: what is got right and wrong, and how sure"),
}
_LIMIT = {"limit": (int, "evaluate on that many rows only, spread evenly")}

_PARALLEL = {
    "source": (str, "file of a sentence a line, glob, list with commas, or - for standard input; "
                    "without a target a table, or tfds:NAME[:SPLIT]"),
    "target": (str, "the translations, line by line"),
}
_TRANSLATED = {
    "task": ("translation", "what is learnt"),
    "train": _PARALLEL,
    "validation": _PARALLEL,
    "source_column": ("source", "of a table; of TFDS the language"),
    "target_column": ("target", "likewise"),
    "format": (str, "of a table: tsv, quoted_tsv, csv, jsonl, parquet; without: by the file's "
                    "name"),
    "header": (bool, "whether the first line names the columns; without: if columns are named"),
    "encoding": _TEXT["encoding"],
    "on_bad_text": ("error", "error, or skip: leave out and count bytes that are no text, "
                             "sentences without the other side and those over data.length"),
    "max_line": _MAX_LINE,
    "vocab": (str, "sentencepiece model; without: that of `pretrained`, else trained on "
                   "data.train"),
    "vocab_size": (8000, "subwords of one that is trained, of both languages together"),
    "subwords": ("bpe", "kind of one that is trained: bpe or unigram"),
    "length": (256, "tokens of a side at most, with the mark of its end"),
    "limit": (int, "train on that many sentences, drawn by train.seed"),
}
_TRANSFORMER = {
    "size": (str, "tiny (4 + 4 layers of 128), base (6 + 6 of 512) or big (of 1,024); without: "
                  "that of `pretrained` or tiny"),
    "num_layers": (int, "of the encoder, and of the decoder; this and the widths; without: those "
                        "of the size"),
    "hidden_dim": (int, "width"),
    "num_heads": (int, "attention heads of a layer"),
    "intermediate_dim": (int, "width inside the feed-forward part"),
    "positions": ("sinusoidal", "sinusoidal or learned"),
    "norm_first": (True, "norm before each part; False: after it, as in the paper: then a small "
                         "model on little text may not learn to attend"),
    "tie_embeddings": (True, "whether the output's kernel is the table of tokens"),
    "dropout": (0.1, "share of values set to 0 in training"),
    "attention_dropout": (0.0, "share of attention weights set to 0 in training"),
    "label_smoothing": (0.1, "share of each label that is spread over the vocabulary"),
}
_TRANSLATING = {
    **{name: entry for name, entry in _TRAINING.items() if name != "batch_size"},
    "batch_tokens": (4096, "tokens of a step's longer side at most, with padding, over all devices "
                           "and micro-batches"),
    "beta_2": (0.98, "of the optimizer"),
    "schedule": ("inverse_sqrt", "inverse_sqrt, linear, cosine or constant, after the warmup"),
}
_DECODING = {
    **_EVAL,
    "batch_size": (32, "sentences translated together"),
    "metric": (str, "keep the weights with which it was best in validation: bleu, chrf or loss; "
                    "without: last ones, or the mean of checkpoint.average"),
    "patience": _CHOICE["patience"],
    "beam": (4, "hypotheses of the beam search"),
    "length_penalty": (0.6, "of the beam search: more favours longer translations"),
    "lowercase": (False, "whether BLEU and chrF do not tell upper from lower case"),
    "tokenize": ("13a", "of BLEU, as sacrebleu calls it; none for text that is tokenised"),
}

_PRETRAINING = {
    **_run(_of_libraries("transformers, google-research/bert or KerasHub")),
    "data": _MASKED, "model": _BERT, "train": _TRAINING,
    "eval": {**_EVAL, **_LIMIT}, "checkpoint": _CHECKPOINT,
}
_FINETUNING = {
    **_run(_of_libraries("transformers, google-research/bert, openai/gpt-2, zihangdai/xlnet or "
                         "KerasHub")),
    "data": _LABELLED, "model": _CLASSIFIER,
    "train": {**_TRAINING, **_GENTLE}, "search": _SEARCH,
    "eval": {**_EVAL, **_CHOICE}, "checkpoint": _CHECKPOINT,
}

_LANGUAGE_MODELING = {
    **_run(_of_libraries("transformers, openai/gpt-2 or KerasHub")),
    "data": {
        "task": ("language_modeling", "what is learnt"),
        **_UNLABELLED,
        "train": ("docstrings", "docstrings, files, globs, a list with commas, - for "
                                "standard input, tfds:NAME[:SPLIT], or a prepared folder"),
        "format": ("auto", "lines, paragraphs, jsonl, csv, tsv, quoted_tsv, parquet; auto: by the "
                           "file's name, or its text"),
        "encoding": _TEXT["encoding"],
        "on_bad_text": _TEXT["on_bad_text"],
        "max_line": _MAX_LINE,
        "vocab": (str, "folder with the tokenizer: vocab.json and merges.txt, or encoder.json and "
                       "vocab.bpe; without: that of `pretrained` or of the prepared folder "
                       "data.train, else trained on data.train"),
        "vocab_size": (8192, "pieces of a vocabulary that is trained"),
        "length": _TEXT["length"],
    },
    "model": {
        "size": (str, "tiny, mini, small, medium, large, xl; without: that of `pretrained` or "
                      "tiny"),
        **{name: _BERT[name] for name in ("num_layers", "hidden_dim", "num_heads",
                                          "intermediate_dim")},
        "max_length": (int, "positions, which are the tokens of a text that it goes on with at "
                            "most; without: those of `pretrained`, or data.length"),
        "dropout": (float, "share of values set to 0 in training; without: that of `pretrained`, "
                           "or 0 (GPT-2: 0.1)"),
        "initializer_range": (float, "spread of first weights; without: 0.02"),
    },
    "train": _TRAINING, "eval": {**_EVAL, **_LIMIT}, "checkpoint": _CHECKPOINT,
}
_LEARNT = _LANGUAGE_MODELING["data"]
_PERMUTATION_MODELING = {
    **_LANGUAGE_MODELING,
    **_run(_of_libraries("transformers or zihangdai/xlnet")),
    "data": {
        **_LEARNT,
        "task": ("permutation_modeling", "what is learnt"),
        "vocab": (str, "sentencepiece model with XLNet's marks, or a folder with spiece.model; "
                       "without: that of `pretrained` or of the prepared folder data.train, else "
                       "trained on data.train"),
        "lowercase": (bool, "whether text is lower-cased; without: as `pretrained` or the prepared "
                            "folder data.train, or no"),
        "predicted_fraction": (1 / 6, "share of tokens to tell, 1 / K in the paper"),
        "spans": (True, "tell spans of whole words"),
        "bidirectional": (False, "every other row holds its text from the end on"),
    },
    "model": {
        **{name: entry for name, entry in _LANGUAGE_MODELING["model"].items()
           if name != "max_length"},
        "size": (str, "tiny, mini, small, medium, base, large; without: that of `pretrained` or "
                      "tiny"),
        "memory_length": (int, "tokens before a row that it sees; without: that of `pretrained`, "
                               "or 0"),
        "max_distance": (int, "distances beyond count as it; without: that of `pretrained`, or "
                              "any"),
        "dropout": (float, "share of values set to 0 in training; without: that of `pretrained`, "
                           "or 0 (XLNet: 0.1)"),
    },
}
_TRANSLATION = {
    **_run("the workdir of a translator"),
    "data": _TRANSLATED, "model": _TRANSFORMER, "train": _TRANSLATING, "eval": _DECODING,
    "checkpoint": {**_CHECKPOINT, "average": (
        1, "newest checkpoints at multiples of checkpoint.every whose mean is the model; as many "
           "are kept, with the optimizer's state")},
}


def pretraining_defaults():
    """Returns the config of MLM + NSP pretraining; `configs/bert_tiny.py` shows its use."""
    return _config(_PRETRAINING)


def language_modeling_defaults():
    """Returns the config of training a GPT-2; `configs/gpt2_small.py` shows its use."""
    return _config(_LANGUAGE_MODELING)


def permutation_modeling_defaults():
    """Returns the config of training an XLNet; `configs/xlnet_small.py` shows its use."""
    return _config(_PERMUTATION_MODELING)


def finetuning_defaults():
    """Returns the config of finetuning a classifier; `configs/classify.py` shows its use."""
    config = _config(_FINETUNING)
    config.eval.every = 500
    return config


def translation_defaults():
    """Returns the config of training a translator; `configs/multi30k.py` shows its use."""
    return _config(_TRANSLATION)


def as_bert(config):
    """Sets the fields of a pretraining config to what Devlin et al. (2018) used."""
    config.model.update(
        norm_first=False, initial_attention="uniform", initializer_range=0.02, dropout=0.1,
        initial_bias="zeros", initial_embeddings="random",
    )
    config.train.update(batch_size=256, learning_rate=1e-4, warmup_fraction=0.01)
    return config


def _config(table):
    config = ml_collections.ConfigDict()
    for name, entry in table.items():
        if isinstance(entry, dict):
            config[name] = _config(entry)
        else:
            # A placeholder has a type, so that a flag can set it.
            config[name] = placeholder(entry[0]) if isinstance(entry[0], type) else entry[0]
    return config


def fields(config, prefix=""):
    """Dotted names and values of all fields of a config."""
    for name, value in config.items():
        if isinstance(value, ml_collections.ConfigDict):
            yield from fields(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def violated_bound(path, value):
    """What a number must be that a field cannot have, such as "above 0"; None of others."""
    zero = path in NOT_NEGATIVE
    if 0 < value < math.inf or (zero and value == 0) or not (zero or path in POSITIVE):
        return None
    return "at least 0" if zero else "above 0"


def meaning(config, path):
    """What a field of a config is for; "" for a field that is not one of ours."""
    task = config.get("data", {}).get("task", "")
    entry = {"": _PRETRAINING, "language_modeling": _LANGUAGE_MODELING,
             "permutation_modeling": _PERMUTATION_MODELING,
             "translation": _TRANSLATION}.get(task, _FINETUNING)
    for name in path.split("."):
        entry = entry.get(name, {}) if isinstance(entry, dict) else {}
    return entry[1] if entry else ""
