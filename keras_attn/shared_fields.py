"""The config fields that several tasks and families share: defaults, help, choices and bounds."""

from keras_attn.field import Field


def run_fields(source):
    return {
        "pretrained": Field(str, f"initial weights: {source}; if unset, random initialization"),
        "workdir": Field(str, "working directory of the run"),
    }


def family_field(family):
    """The field `model.family`, which has one value in a config."""
    return {"family": Field(family.name, "model family", choices=(family.name,))}


def describe_sources(families):
    """Describes the values that `pretrained` accepts.

    Args:
        families: `FamilyFields` of the families whose checkpoints are supported.
    """
    names = dict.fromkeys(name for family in families for name in family.libraries)
    if not names:
        return "a workdir"
    *most, last = names
    listed = f"{', '.join(most)} or {last}" if most else last
    return f"a workdir, a checkpoint of {listed}, or hf:NAME"


MAX_LINE = Field(
    int,
    "maximum size of a line of a table, or of a record, in bytes; longer ones count as bad "
    "text; if unset, 16 MiB; pretraining splits longer lines of plain text",
    above=0,
)
TEXT = {
    "encoding": Field("utf-8", "character encoding of the files"),
    "on_bad_text": Field(
        "error",
        "how to handle unreadable text: error (stop) or skip (leave out and count)",
        choices=("error", "skip"),
    ),
    "max_line": MAX_LINE,
    "vocab": Field(
        str,
        "vocabulary file, or a folder that contains it; if unset, from `pretrained` or from "
        "the prepared folder data.train, else trained on data.train",
    ),
    "vocab_size": Field(8192, "vocabulary size of a newly trained WordPiece vocabulary", above=0),
    "lowercase": Field(
        bool,
        "whether to lower-case text; if unset, as in `pretrained` or in the prepared folder "
        "data.train, else True",
    ),
    "length": Field(128, "sequence length in tokens", above=0),
    "pack": Field(
        1,
        "maximum number of examples packed into a sequence, to reduce padding of short "
        "examples; in finetuning a batch still has batch_size examples",
        above=0,
    ),
}
UNLABELLED = {
    "train": Field(
        "docstrings",
        "training text: docstrings (of the installed Python packages), files, globs, "
        "a comma-separated list, - for standard input, tfds:NAME[:SPLIT], a prepared folder, or "
        "TFRecords of google-research/bert",
    ),
    "validation": Field(
        str,
        "validation text, in the forms of data.train; if unset, held-out docstrings for "
        "docstrings, else none",
    ),
    "format": Field(
        "auto",
        "file format: lines, paragraphs, jsonl, csv, tsv, quoted_tsv, parquet or tfrecord; "
        "auto: detected from the file name or the content",
    ),
    "field": Field(
        "text", "name of the text field of JSON records and TFDS, or of the text column of a table"
    ),
}
# For language models whose tokenizer reads documents without normalization.
DOCUMENTS = {
    **UNLABELLED,
    "train": Field(
        "docstrings",
        "training text: docstrings (of the installed Python packages), files, globs, "
        "a comma-separated list, - for standard input, tfds:NAME[:SPLIT], or a prepared folder",
    ),
    "format": Field(
        "auto",
        "file format: lines, paragraphs, jsonl, csv, tsv, quoted_tsv or parquet; auto: "
        "detected from the file name or the content",
    ),
    "encoding": TEXT["encoding"],
    "on_bad_text": TEXT["on_bad_text"],
    "max_line": MAX_LINE,
    "vocab": Field(
        str,
        "folder with the BPE tokenizer (vocab.json and merges.txt, or encoder.json and "
        "vocab.bpe); if unset, from `pretrained` or from the prepared folder data.train, else "
        "trained on data.train",
    ),
    "vocab_size": Field(8192, "vocabulary size of a newly trained tokenizer", above=0),
    "length": TEXT["length"],
}
SHAPE = {
    "num_layers": Field(int, "number of layers; if unset, from model.size", above=0),
    "hidden_dim": Field(int, "hidden size; if unset, from model.size", above=0),
    "num_heads": Field(int, "attention heads per layer; if unset, from model.size", above=0),
    "intermediate_dim": Field(int, "feed-forward size; if unset, from model.size", above=0),
}
# For masked language models without next-sentence prediction.
ONE_SEGMENT = {
    "segments": Field(
        "full_sentences",
        "segments of a sequence: full_sentences (one; RoBERTa)",
        choices=("full_sentences",),
    )
}
# Of masked language models with the encoder of BERT.
INITIAL_WEIGHTS = {
    "initial_attention": Field(
        str,
        "initialization of attention: neighbours (each head attends to a nearby position) or "
        "uniform (as in BERT); if unset, neighbours",
    ),
    "initializer_range": Field(
        float,
        "initializer standard deviation; if unset, 0.8 / sqrt(hidden_dim), at most 0.05",
        above=0,
    ),
    "new_heads": Field(
        False, "whether to initialize heads randomly that `pretrained` does not contain"
    ),
    "initial_embeddings": Field(
        "cooccurrences",
        "initialization of the token embeddings without `pretrained`: "
        "cooccurrences (counts in data.train) or random (as in BERT)",
        choices=("cooccurrences", "random"),
        resume="first",
        before="random",
    ),
    "initial_bias": Field(
        "frequencies",
        "initialization of the output bias of the masked language model: "
        "frequencies (log frequencies of the tokens) or zeros (as in BERT)",
        choices=("frequencies", "zeros"),
    ),
}
# Parts of ModernBERT that a BERT may have.
LOCAL = {
    "local_every": Field(
        int,
        "number of layers of which the first one attends to the whole sequence, and the others to "
        "a window; if unset, 3 with model.window or in ModernBERT, else all layers are global",
        above=0,
    ),
    "window": Field(
        int,
        "window of local layers: window // 2 tokens on either side; if unset, 128",
        above=0,
    ),
    "rotary_base": Field(
        float,
        "base of the rotary positions of global layers; if unset, 10,000, in ModernBERT 160,000",
        above=0,
    ),
    "local_rotary_base": Field(
        float, "base of the rotary positions of local layers; if unset, 10,000", above=0
    ),
    "first_norm": Field(
        bool,
        "whether the first layer of a pre-norm model normalizes the input of its attention; if "
        "unset, True, in ModernBERT False",
    ),
    "use_bias": Field(
        bool,
        "whether attention and feed-forward layers have biases; if unset, True, in ModernBERT "
        "False",
    ),
    "norm_bias": Field(
        bool, "whether layer norms have biases; if unset, True, in ModernBERT False"
    ),
}
INGREDIENTS = {
    "positions": Field(
        str,
        "positions: learned (embeddings) or rotary (of queries and keys, without a maximum "
        "length); if unset, learned",
        choices=("learned", "rotary"),
    ),
    "feed_forward": Field(
        str,
        "feed-forward layers: dense or geglu (gated hidden units); if unset, dense",
        choices=("dense", "geglu"),
    ),
    **LOCAL,
    "qk_norm": Field(
        bool, "whether attention normalizes queries and keys (RMSNorm); if unset, False"
    ),
    "initial_outputs": Field(
        str,
        "initialization of the kernels whose results are added to the residual: random or zeros; "
        "if unset, random",
        choices=("random", "zeros"),
    ),
    "logit_cap": Field(
        float,
        "bound c of the logits of the masked language model, c tanh(logits / c); if unset, as in "
        "`pretrained`, else none",
        above=0,
    ),
}
LABEL_SMOOTHING = Field(
    0.1, "label smoothing: probability spread uniformly over the vocabulary", low=0, below=1
)
RECURRENT_TRANSLATOR = {
    "dropout": Field(0.2, "dropout rate", low=0, below=1),
    "teacher_forcing_ratio": Field(
        1.0,
        "probability that a training step is fed the previous target token instead of the "
        "model's own prediction",
        low=0,
        high=1,
    ),
    "label_smoothing": LABEL_SMOOTHING,
}
TRAINING = {
    "steps": Field(
        int,
        "length of the run in optimizer steps; set one of steps, epochs and minutes (one on "
        "the command line replaces the one in the config)",
        above=0,
        chosen=True,
        resume="any",
    ),
    "epochs": Field(float, "length of the run in epochs over data.train", above=0, chosen=True),
    "minutes": Field(
        float,
        "length of the run in minutes of training, summed over all restarts",
        above=0,
        chosen=True,
    ),
    "batch_size": Field(
        32,
        "global batch size: sequences per optimizer step, over all devices and micro-batches",
        above=0,
    ),
    "learning_rate": Field(2e-3, "peak learning rate", above=0),
    "warmup_fraction": Field(
        0.1,
        "warmup: fraction of all steps over which the learning rate rises linearly from 0",
        low=0,
        below=1,
    ),
    "schedule": Field(
        "linear",
        "learning rate schedule after warmup: linear, cosine, constant, inverse_sqrt or wsd "
        "(warmup-stable-decay: constant, then 1 - sqrt in the last decay_fraction of all steps)",
        choices=("linear", "cosine", "constant", "inverse_sqrt", "wsd"),
    ),
    "decay_fraction": Field(
        0.1, "decay of schedule=wsd: fraction of all steps at the end of the run", low=0, high=1
    ),
    "optimizer": Field(
        "adamw",
        "optimizer: adamw, lamb or muon (orthogonal updates of the kernels of attention and "
        "feed-forward layers, and adamw for the other weights)",
        choices=("adamw", "lamb", "muon"),
    ),
    "weight_decay": Field(0.01, "weight decay of all weights except biases and layer norms", low=0),
    "clip_norm": Field(1.0, "maximum global norm of the gradients; 0: no clipping", low=0),
    "seed": Field(
        0,
        "random seed of weight initialization, data order, masking and dropout",
        low=0,
        high=2**32 - 1,  # NumPy's bound
    ),
    "accumulate": Field(
        int,
        "gradient accumulation: micro-batches per step, for less memory and the same result "
        "except for dropout; if unset, the fewest with which a step fits into free memory",
        above=0,
        chosen=True,
        resume="any",
    ),
    "remat": Field(
        False,
        "rematerialization (gradient checkpointing): recompute the activations inside each "
        "layer in the backward pass; less memory, more time",
        resume="any",
    ),
    "precision": Field(
        "float32",
        "precision: float32, mixed_bfloat16, or mixed_float16 for GPUs without bfloat16",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
    ),
    "jit": Field(False, "whether to compile the training step with XLA"),
}
DISTILLATION = {
    "teacher": Field(
        str,
        "trained model to distill (teacher), for the same task with the same labels or vocabulary: "
        "a workdir, or a checkpoint of another library; if unset, none",
    ),
    "distillation": Field(
        float,
        "weight of the distillation loss with train.teacher, and 1 minus that of the label loss; "
        "if unset, 0.5",
        low=0,
        high=1,
    ),
    "distillation_temperature": Field(
        float, "softmax temperature of the distillation loss; if unset, 2", above=0
    ),
}
CHECKPOINT = {
    "every": Field(
        int, "steps between checkpoints; if unset, every five minutes", above=0, resume="any"
    ),
    "keep": Field(2, "number of newest checkpoints to keep", above=0, resume="any"),
}
EVAL = {
    "every": Field(0, "steps between evaluations; 0: only at the end", low=0, resume="any"),
    "batch_size": Field(64, "batch size of evaluation", above=0, resume="any"),
}
LIMIT = {
    "limit": Field(
        int,
        "number of validation sequences to evaluate, evenly spaced; if unset, all",
        above=0,
        resume="any",
    )
}
