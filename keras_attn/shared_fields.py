"""The fields of the configs of runs: defaults, help, choices and ranges."""

from keras_attn.field import Field


def run_fields(source):
    return {"pretrained": Field(str, f"weights to start from: {source}; without: random ones"),
            "workdir": Field(str, "folder of the run")}


def family_field(family):
    """The field `model.family`, of which a config has one value."""
    return {"family": Field(family.name, "family of the model", choices=(family.name,))}


def of_libraries(families):
    """Describes what `pretrained` may be.

    Args:
        families: `FamilyFields` of the families whose checkpoints it may hold.
    """
    names = dict.fromkeys(name for family in families for name in family.libraries)
    if not names:
        return "a workdir"
    # Those that hold several families come first and last.
    *most, last = sorted(names, key=lambda name: (name == "KerasHub", name != "transformers"))
    listed = f"{', '.join(most)} or {last}" if most else last
    return f"a workdir, a folder of {listed}, or hf:NAME"


MAX_LINE = Field(
    int, "bytes of the longest line of a table or of the longest record; longer ones are bad "
    "text; unset: 16 MiB. Longer lines of plain text are split in pretraining", above=0)
TEXT = {
    "encoding": Field("utf-8", "of the files"),
    "on_bad_text": Field("error", "error, or skip: leave out and count", choices=("error", "skip")),
    "max_line": MAX_LINE,
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
UNLABELLED = {
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
# Of language models whose tokenizer takes documents as they stand.
DOCUMENTS = {
    **UNLABELLED,
    "train": Field(
        "docstrings", "docstrings, files, globs, a list with commas, - for standard input, "
        "tfds:NAME[:SPLIT], or a prepared folder"),
    "format": Field(
        "auto", "lines, paragraphs, jsonl, csv, tsv, quoted_tsv, parquet; auto: by the file's "
        "name, or its text"),
    "encoding": TEXT["encoding"],
    "on_bad_text": TEXT["on_bad_text"],
    "max_line": MAX_LINE,
    "vocab": Field(
        str, "folder with the tokenizer: vocab.json and merges.txt, or encoder.json and "
        "vocab.bpe; without: that of `pretrained` or of the prepared folder data.train, else "
        "trained on data.train"),
    "vocab_size": Field(8192, "pieces of a vocabulary that is trained", above=0),
    "length": TEXT["length"],
}
SHAPE = {
    "num_layers": Field(int, "this and the widths; without: those of the size", above=0),
    "hidden_dim": Field(int, "width", above=0),
    "num_heads": Field(int, "attention heads of a layer", above=0),
    "intermediate_dim": Field(int, "width inside the feed-forward part", above=0),
}
TRAINING = {
    "steps": Field(
        int, "length of the run: one of steps, epochs and minutes; that of the command line takes "
        "the place of the config's", above=0, chosen=True, resume="any"),
    "epochs": Field(float, "passes over data.train", above=0, chosen=True),
    "minutes": Field(float, "of training, over all restarts", above=0, chosen=True),
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
        "without: the fewest with which a step fits into free memory", above=0, chosen=True,
        resume="any"),
    "remat": Field(
        False, "rematerialization: keep only the inputs of each layer for the gradient, and "
        "compute the rest again; less memory, more time", resume="any"),
    "precision": Field(
        "float32", "float32, mixed_bfloat16, or mixed_float16 for GPUs without bfloat16",
        choices=("float32", "mixed_bfloat16", "mixed_float16")),
    "jit": Field(False, "whether XLA compiles the step"),
}
CHECKPOINT = {
    "every": Field(int, "steps; without: five minutes", above=0, resume="any"),
    "keep": Field(2, "how many of the newest stay", above=0, resume="any"),
}
EVAL = {
    "every": Field(0, "steps; 0: at the end only", low=0, resume="any"),
    "batch_size": Field(64, "rows of a step of validation", above=0, resume="any"),
}
LIMIT = {"limit": Field(
    int, "evaluate on that many rows only, spread evenly", above=0, resume="any")}
