"""The fields of the configs of runs: defaults, help, choices and ranges."""

from keras_attn.field import Field


def _run(source):
    return {"pretrained": Field(str, f"weights to start from: {source}; without: random ones"),
            "workdir": Field(str, "folder of the run")}


def _of_libraries(names):
    return f"a workdir, a folder of {names}, or hf:NAME"


_MAX_LINE = Field(
    int, "bytes of the longest line of a table or of the longest record; longer ones are bad "
    "text; unset: 16 MiB. Longer lines of plain text are split in pretraining", above=0)
_TEXT = {
    "encoding": Field("utf-8", "of the files"),
    "on_bad_text": Field("error", "error, or skip: leave out and count", choices=("error", "skip")),
    "max_line": _MAX_LINE,
    "vocab": Field(
        str, "vocabulary file, or a folder with it; without: that of `pretrained` or of the "
        "prepared folder data.train, else trained on data.train"),
    "vocab_size": Field(8192, "word pieces of a vocabulary that is trained", above=0),
    "lowercase": Field(
        bool, "without: as `pretrained` or the prepared folder data.train, else True"),
    "length": Field(128, "tokens of a row", above=0),
    "pack": Field(
        1, "examples that share a row at most, for less padding where they are short; in "
        "finetuning a batch still has batch_size examples", above=0),
}
_UNLABELLED = {
    "train": Field(
        "docstrings", "docstrings, files, globs, a list with commas, - for standard input, "
        "tfds:NAME[:SPLIT], a prepared folder, or TFRecords of google-research/bert"),
    "validation": Field(str, "as data.train; without: other docstrings for docstrings, else none"),
    "format": Field(
        "auto", "lines, paragraphs, jsonl, csv, tsv, quoted_tsv, parquet, tfrecord; auto: by the "
        "file's name, or its text"),
    "field": Field(
        "text", "field of JSON records and TFDS, or column of a table, that holds the text"),
}
_MASKED = {
    **_UNLABELLED,
    **_TEXT,
    "max_predictions": Field(
        int, "masked tokens of a row at most; without: masked_fraction of length"),
    "masked_fraction": Field(0.15, "share of tokens to predict"),
    "short_fraction": Field(0.1, "share of rows made shorter at random"),
    "whole_words": Field(False, "mask whole words"),
    "spans": Field(False, "mask spans of whole words (SpanBERT)"),
    "segments": Field(
        str, "of a row: next_sentence; sentence_order: two, half of them swapped (ALBERT); "
        "full_sentences: one (RoBERTa); unset: next_sentence, or full_sentences where documents "
        "have one sentence", choices=("next_sentence", "sentence_order", "full_sentences")),
}
_LABELLED = {
    "task": Field(
        str, "single_label, multilabel or regression; reading_comprehension: find answers in "
        "passages, from files of SQuAD; or a GLUE task, which sets columns, labels and metrics; "
        "without: single_label"),
    "train": Field(
        str, "docstrings, file, glob, list with commas, - for standard input (with data.format), "
        "tfds:NAME[:SPLIT], or the folder of data.task; without: data.task in TFDS"),
    "validation": Field(
        str, "as data.train (a TFDS name without a split: its validation); without: that of "
        "docstrings, or of data.task where data.train is a folder or left out; else data.holdout"),
    "holdout": Field(
        0.1, "share of the rows, or questions, of data.train kept for validation where there is "
        "no other; 0: none", low=0, below=1),
    "text": Field(str, "column of the text: a name, or a number from 0"),
    "text_pair": Field(str, "column of the second text"),
    "label": Field(
        str, "column of the label; of multilabel a JSON list, or labels with data.label_separator"),
    "label_separator": Field(",", "between the labels of a row of multilabel"),
    "positive": Field(
        str, "of two classes, the one that f1 is of; without: the second by alphabet"),
    "regression": Field(False, "as data.task=regression"),
    "format": Field(
        str, "tsv, quoted_tsv (with CSV's quotes), csv, jsonl, parquet, label_text; without: by "
        "the file's name"),
    "header": Field(
        bool, "whether the first line names the columns; without: if columns are named"),
    "limit": Field(int, "train on that many rows, drawn by data.seed", above=0),
    "seed": Field(
        int, "of the rows drawn and held out; without: train.seed, the first of several", low=0),
    "windows": Field(
        int, "read longer texts in windows of data.length tokens that share this many, and "
        "average their probabilities; if unset, used where more than 5 % of the texts exceed the "
        "model's positions", low=0),
    "by_length": Field(
        bool, "batches of texts of similar length, for less padding; of all lengths they learn "
        "sooner; without: True unless packed"),
    **_TEXT,
    "length": Field(
        int, "tokens of a row at most; if unset, the longest text, up to the model's positions "
        "(reading_comprehension: 384)", above=0),
    "max_question": Field(64, "tokens of a question at most, in reading_comprehension", above=0),
    "stride": Field(
        int, "tokens from one window of a long passage to the next, in reading_comprehension; "
        "without: 128, or half a window if that is less", above=0),
    "max_answer": Field(30, "tokens of an answer at most, in reading_comprehension", above=0),
}
_BERT = {
    "size": Field(
        str, "tiny, mini, small, medium, base, large; without: that of `pretrained` or tiny"),
    "num_layers": Field(int, "this and the widths; without: those of the size"),
    "hidden_dim": Field(int, "width"),
    "num_heads": Field(int, "attention heads of a layer"),
    "intermediate_dim": Field(int, "width inside the feed-forward part"),
    "max_length": Field(int, "positions; without: 512"),
    "activation": Field(str, "gelu_tanh or gelu_erf; without: gelu_tanh"),
    "norm_first": Field(bool, "norm before each part, not after; without: True (BERT: False)"),
    "initial_attention": Field(str, "neighbours or uniform; without: neighbours (BERT: uniform)"),
    "initializer_range": Field(
        float, "spread of first weights; without: 0.8 / sqrt(hidden_dim), at most 0.05", above=0),
    "next_sentence": Field(
        bool, "learn next sentences, or their order; without: as `pretrained`, else where rows "
        "have two segments"),
    "new_heads": Field(False, "start heads that `pretrained` lacks at random"),
    "initial_embeddings": Field(
        "cooccurrences", "of tokens without `pretrained`: from what occurs near each in "
        "data.train, or random as BERT", choices=("cooccurrences", "random")),
    "initial_bias": Field(
        "frequencies", "of the masked-LM output: log frequencies, or zeros as BERT",
        choices=("frequencies", "zeros")),
    "dropout": Field(
        float, "share of values set to 0 in training; without: that of `pretrained`, or 0 (BERT: "
        "0.1)", low=0, below=1),
}
_CLASSIFIER = {
    "size": Field(str, "without `pretrained`: tiny, mini, small, medium, base or large; tiny"),
    "dropout": Field(0.1, "share of values set to 0 in training", low=0, below=1),
    "pooling": Field(
        str, "cls: the first token (GPT-2 and XLNet: the last), or mean: of all tokens; if unset, "
        "as the pretrained classifier; cls for released models; else mean",
        choices=("cls", "mean")),
    "new_heads": Field(False, "start the pooler at random where `pretrained` lacks it"),
}
_TRAINING = {
    "steps": Field(
        int, "length of the run: one of steps, epochs and minutes; that of the command line takes "
        "the place of the config's", above=0),
    "epochs": Field(float, "passes over data.train", above=0),
    "minutes": Field(float, "of training, over all restarts", above=0),
    "batch_size": Field(32, "rows of a step, over all devices and micro-batches", above=0),
    "learning_rate": Field(2e-3, "its peak", above=0),
    "warmup_fraction": Field(
        0.1, "share of the run in which the learning rate rises", low=0, below=1),
    "schedule": Field(
        "linear", "linear, cosine, constant or inverse_sqrt, after the warmup",
        choices=("linear", "cosine", "constant", "inverse_sqrt")),
    "optimizer": Field("adamw", "adamw or lamb", choices=("adamw", "lamb")),
    "weight_decay": Field(0.01, "of all but biases and norms", low=0),
    "clip_norm": Field(1.0, "largest norm of all gradients together; 0: any", low=0),
    "seed": Field(0, "of weights, order, masks and dropout", low=0),
    "accumulate": Field(
        int, "micro-batches of a step: less memory, the same result but for dropout masks; "
        "without: the fewest with which a step fits into free memory", above=0),
    "remat": Field(
        False, "rematerialization: keep only the inputs of each layer for the gradient, and "
        "compute the rest again; less memory, more time"),
    "precision": Field(
        "float32", "float32, mixed_bfloat16, or mixed_float16 for GPUs without bfloat16",
        choices=("float32", "mixed_bfloat16", "mixed_float16")),
    "jit": Field(False, "whether XLA compiles the step"),
}
_GENTLE = {
    "epochs": Field(
        float, "passes over data.train; if neither steps, epochs nor minutes are set, chosen from "
        "the number of rows", above=0),
    "learning_rate": Field(
        float, "peak; if unset, chosen from the size of the model and what pretrained it", above=0),
    "seeds": Field(
        1, "number of runs, with seeds from train.seed on; the results are their mean, deviation "
        "and 95 % interval"),
    "class_weights": Field(False, "let each class weigh the same in loss and metrics of training"),
    "layer_decay": Field(1.0, "factor of the learning rate from each layer to the one below"),
    "freeze": Field(0, "lowest layers that stay as they are, and the embeddings with them", low=0),
}
_SEARCH = {
    "learning_rates": Field(
        str, "such as 2e-5,3e-5,5e-5: try each, and take the best by eval.metric"),
    "batch_sizes": Field(str, "such as 16,32: likewise, with each learning rate"),
}
_CHECKPOINT = {
    "every": Field(int, "steps; without: five minutes", above=0),
    "keep": Field(2, "how many of the newest stay", above=0),
}
_EVAL = {
    "every": Field(0, "steps; 0: at the end only", low=0),
    "batch_size": Field(64, "rows of a step of validation", above=0),
}
_CHOICE = {
    "metric": Field(
        str, "keep the weights with which it was best in validation: accuracy, f1, f1_macro, "
        "f1_micro, matthews, pearson, exact, …, loss; without: last ones"),
    "patience": Field(
        int, "end after that many evaluations without a better eval.metric; without: at the end "
        "of the run", above=0),
    "report": Field(
        True, "write report.html at the end: what is got right and wrong, and how sure"),
}
_LIMIT = {"limit": Field(int, "evaluate on that many rows only, spread evenly", above=0)}

_PARALLEL = {
    "source": Field(
        str, "file of a sentence a line, glob, list with commas, or - for standard input; without "
        "a target a table, or tfds:NAME[:SPLIT]"),
    "target": Field(str, "the translations, line by line"),
}
_TRANSLATED = {
    "task": Field("translation", "what is learnt"),
    "train": _PARALLEL,
    "validation": _PARALLEL,
    "source_column": Field("source", "of a table; of TFDS the language"),
    "target_column": Field("target", "likewise"),
    "format": Field(
        str, "of a table: tsv, quoted_tsv, csv, jsonl, parquet; without: by the file's name"),
    "header": Field(
        bool, "whether the first line names the columns; without: if columns are named"),
    "encoding": _TEXT["encoding"],
    "on_bad_text": Field(
        "error", "error, or skip: leave out and count bytes that are no text, sentences without "
        "the other side and those over data.length", choices=("error", "skip")),
    "max_line": _MAX_LINE,
    "vocab": Field(
        str, "sentencepiece model; without: that of `pretrained`, else trained on data.train"),
    "vocab_size": Field(
        8000, "subwords of one that is trained, of both languages together", above=0),
    "subwords": Field(
        "bpe", "kind of one that is trained: bpe or unigram", choices=("bpe", "unigram")),
    "length": Field(256, "tokens of a side at most, with the mark of its end", above=0),
    "limit": Field(int, "train on that many sentences, drawn by train.seed", above=0),
}
_TRANSFORMER = {
    "size": Field(
        str, "tiny (4 + 4 layers of 128), base (6 + 6 of 512) or big (of 1,024); without: that of "
        "`pretrained` or tiny"),
    "num_layers": Field(
        int, "of the encoder, and of the decoder; this and the widths; without: those of the size"),
    "hidden_dim": Field(int, "width"),
    "num_heads": Field(int, "attention heads of a layer"),
    "intermediate_dim": Field(int, "width inside the feed-forward part"),
    "positions": Field("sinusoidal", "sinusoidal or learned", choices=("sinusoidal", "learned")),
    "norm_first": Field(
        True, "norm before each part; False: after it, as in the paper: then a small model on "
        "little text may not learn to attend"),
    "tie_embeddings": Field(True, "whether the output's kernel is the table of tokens"),
    "dropout": Field(0.1, "share of values set to 0 in training", low=0, below=1),
    "attention_dropout": Field(
        0.0, "share of attention weights set to 0 in training", low=0, below=1),
    "label_smoothing": Field(
        0.1, "share of each label that is spread over the vocabulary", low=0, below=1),
}
_TRANSLATING = {
    **{name: entry for name, entry in _TRAINING.items() if name != "batch_size"},
    "batch_tokens": Field(
        4096, "tokens of a step's longer side at most, with padding, over all devices and "
        "micro-batches", above=0),
    "beta_2": Field(0.98, "of the optimizer", low=0, below=1),
    "schedule": Field(
        "inverse_sqrt", "inverse_sqrt, linear, cosine or constant, after the warmup",
        choices=("linear", "cosine", "constant", "inverse_sqrt")),
}
_DECODING = {
    **_EVAL,
    "batch_size": Field(32, "sentences translated together", above=0),
    "metric": Field(
        str, "keep the weights with which it was best in validation: bleu, chrf or loss; without: "
        "last ones, or the mean of checkpoint.average"),
    "patience": _CHOICE["patience"],
    "beam": Field(4, "hypotheses of the beam search", above=0),
    "length_penalty": Field(0.6, "of the beam search: more favours longer translations", low=0),
    "lowercase": Field(False, "whether BLEU and chrF do not tell upper from lower case"),
    "tokenize": Field("13a", "of BLEU, as sacrebleu calls it; none for text that is tokenised"),
}

PRETRAINING = {
    **_run(_of_libraries("transformers, google-research/bert or KerasHub")),
    "data": _MASKED, "model": _BERT, "train": _TRAINING,
    "eval": {**_EVAL, **_LIMIT}, "checkpoint": _CHECKPOINT,
}
FINETUNING = {
    **_run(_of_libraries("transformers, google-research/bert, openai/gpt-2, zihangdai/xlnet or "
                         "KerasHub")),
    "data": _LABELLED, "model": _CLASSIFIER,
    "train": {**_TRAINING, **_GENTLE}, "search": _SEARCH,
    "eval": {**_EVAL, "every": Field(500, _EVAL["every"].help, low=0), **_CHOICE},
    "checkpoint": _CHECKPOINT,
}

LANGUAGE_MODELING = {
    **_run(_of_libraries("transformers, openai/gpt-2 or KerasHub")),
    "data": {
        "task": Field("language_modeling", "what is learnt"),
        **_UNLABELLED,
        "train": Field(
            "docstrings", "docstrings, files, globs, a list with commas, - for standard input, "
            "tfds:NAME[:SPLIT], or a prepared folder"),
        "format": Field(
            "auto", "lines, paragraphs, jsonl, csv, tsv, quoted_tsv, parquet; auto: by the file's "
            "name, or its text"),
        "encoding": _TEXT["encoding"],
        "on_bad_text": _TEXT["on_bad_text"],
        "max_line": _MAX_LINE,
        "vocab": Field(
            str, "folder with the tokenizer: vocab.json and merges.txt, or encoder.json and "
            "vocab.bpe; without: that of `pretrained` or of the prepared folder data.train, else "
            "trained on data.train"),
        "vocab_size": Field(8192, "pieces of a vocabulary that is trained", above=0),
        "length": _TEXT["length"],
    },
    "model": {
        "size": Field(
            str, "tiny, mini, small, medium, large, xl; without: that of `pretrained` or tiny"),
        **{name: _BERT[name] for name in ("num_layers", "hidden_dim", "num_heads",
                                          "intermediate_dim")},
        "max_length": Field(
            int, "positions, which are the tokens of a text that it goes on with at most; "
            "without: those of `pretrained`, or data.length"),
        "dropout": Field(
            float, "share of values set to 0 in training; without: that of `pretrained`, or 0 "
            "(GPT-2: 0.1)", low=0, below=1),
        "initializer_range": Field(float, "spread of first weights; without: 0.02", above=0),
    },
    "train": _TRAINING, "eval": {**_EVAL, **_LIMIT}, "checkpoint": _CHECKPOINT,
}
_LEARNT = LANGUAGE_MODELING["data"]
PERMUTATION_MODELING = {
    **LANGUAGE_MODELING,
    **_run(_of_libraries("transformers or zihangdai/xlnet")),
    "data": {
        **_LEARNT,
        "task": Field("permutation_modeling", "what is learnt"),
        "vocab": Field(
            str, "sentencepiece model with XLNet's marks, or a folder with spiece.model; without: "
            "that of `pretrained` or of the prepared folder data.train, else trained on data.train",
            ),
        "lowercase": Field(
            bool, "whether text is lower-cased; without: as `pretrained` or the prepared folder "
            "data.train, or no"),
        "predicted_fraction": Field(1 / 6, "share of tokens to tell, 1 / K in the paper"),
        "spans": Field(True, "tell spans of whole words"),
        "bidirectional": Field(False, "every other row holds its text from the end on"),
    },
    "model": {
        **{name: entry for name, entry in LANGUAGE_MODELING["model"].items()
           if name != "max_length"},
        "size": Field(
            str, "tiny, mini, small, medium, base, large; without: that of `pretrained` or tiny"),
        "memory_length": Field(
            int, "tokens before a row that it sees; without: that of `pretrained`, or 0"),
        "max_distance": Field(
            int, "distances beyond count as it; without: that of `pretrained`, or any"),
        "dropout": Field(
            float, "share of values set to 0 in training; without: that of `pretrained`, or 0 "
            "(XLNet: 0.1)", low=0, below=1),
    },
}
TRANSLATION = {
    **_run("the workdir of a translator"),
    "data": _TRANSLATED, "model": _TRANSFORMER, "train": _TRANSLATING, "eval": _DECODING,
    "checkpoint": {**_CHECKPOINT, "average": Field(
        1, "newest checkpoints at multiples of checkpoint.every whose mean is the model; as many "
           "are kept, with the optimizer's state", above=0)},
}
