"""Every field of a run's config, with its default.

A field that is None by default has a type of its own, so that a flag can set it.
"""

import ml_collections
from ml_collections.config_dict import placeholder

FINETUNING_EPOCHS = 3.0  # if none of train.steps, train.epochs and train.minutes is given


def finetuning_defaults():
    """Returns the config of finetuning a classifier; `configs/classify.py` shows its use."""
    config = ml_collections.ConfigDict()
    config.pretrained = placeholder(str)  # workdir to start from; None: random weights
    config.workdir = placeholder(str)
    config.data = _labelled_data()
    config.model = _classifier()

    config.train = _training(batch_size=32, learning_rate=1e-4)  # BERT-base: 2e-5 to 5e-5
    config.eval = ml_collections.ConfigDict({"every": 500, "batch_size": 64})
    config.checkpoint = _checkpoints()
    return config


def pretraining_defaults():
    """Returns the config of MLM + NSP pretraining; `configs/bert_tiny.py` shows its use."""
    config = ml_collections.ConfigDict()
    config.pretrained = placeholder(str)  # workdir to go on from; None: random weights
    config.workdir = placeholder(str)
    config.data = _unlabelled_data()
    config.model = _bert()
    config.train = _training(batch_size=32, learning_rate=2e-3)  # BERT-base: 1e-4, batch 256
    config.eval = ml_collections.ConfigDict({
        "every": 0,  # steps; 0: at the end only
        "batch_size": 64,
        "limit": placeholder(int),  # evaluate on that many examples only, spread evenly
    })
    config.checkpoint = _checkpoints()
    return config


def as_bert(config):
    """Sets the fields of a pretraining config to what Devlin et al. (2018) used."""
    config.model.update(
        norm_first=False, initial_attention="uniform", initializer_range=0.02, dropout=0.1
    )
    config.train.update(batch_size=256, learning_rate=1e-4, warmup_fraction=0.01)
    return config


def _training(batch_size, learning_rate):
    train = ml_collections.ConfigDict()
    train.steps = placeholder(int)  # of steps, epochs and minutes one at most
    train.epochs = placeholder(float)
    train.minutes = placeholder(float)
    train.batch_size = batch_size  # over all devices and micro-batches
    train.learning_rate = learning_rate
    train.warmup_fraction = 0.1
    train.schedule = "linear"  # linear, cosine or constant, after the warmup
    train.optimizer = "adamw"  # adamw or lamb
    train.weight_decay = 0.01
    train.clip_norm = 1.0
    train.seed = 0
    train.accumulate = 1  # micro-batches a step
    train.precision = "float32"  # or mixed_bfloat16
    train.jit = False
    return train


def _checkpoints():
    checkpoint = ml_collections.ConfigDict()
    checkpoint.every = placeholder(int)  # steps; None: every five minutes
    checkpoint.keep = 2
    return checkpoint


def _unlabelled_data():
    data = ml_collections.ConfigDict()
    # docstrings, files, globs, a list with commas, tfds:NAME[:SPLIT], a folder that
    # `pretrain.prepare` wrote, or TFRecords of google-research/bert
    data.train = "docstrings"
    data.validation = placeholder(str)  # None: the other docstrings, or none
    data.format = "auto"  # lines, paragraphs, jsonl, tfrecord; auto: found out
    data.field = "text"  # of JSONL and TFDS
    data.encoding = "utf-8"
    data.on_bad_text = "error"  # or skip, and count
    data.vocab = placeholder(str)  # file; None: that of `pretrained`, or trained on data.train
    data.vocab_size = 8192
    data.lowercase = placeholder(bool)  # None: as `pretrained`, or True
    data.length = 128
    data.max_predictions = placeholder(int)  # masked tokens a row at most; their share of length
    data.masked_fraction = 0.15
    data.short_fraction = 0.1
    data.whole_words = False
    return data


def _bert():
    model = ml_collections.ConfigDict()
    model.dropout = 0.0  # with little training it only slows; BERT: 0.1
    # None: that of `pretrained`, else what is said here.
    model.size = placeholder(str)  # tiny, mini, small, medium, base, large; tiny
    model.num_layers = placeholder(int)  # these four: of the size
    model.hidden_dim = placeholder(int)
    model.num_heads = placeholder(int)
    model.intermediate_dim = placeholder(int)
    model.max_length = placeholder(int)  # positions; 512
    model.activation = placeholder(str)  # gelu_tanh or gelu_erf; gelu_tanh
    model.norm_first = placeholder(bool)  # pre-norm; True (BERT: False)
    model.initial_attention = placeholder(str)  # neighbours, or uniform as BERT; neighbours
    model.initializer_range = placeholder(float)  # 0.8 / sqrt(hidden_dim) up to 0.05
    return model


def _labelled_data():
    data = ml_collections.ConfigDict()
    data.task = placeholder(str)  # a GLUE task: columns, labels and metrics are known
    data.train = placeholder(str)  # file, glob, list with commas, or tfds:NAME[:SPLIT]
    data.validation = placeholder(str)
    data.text = placeholder(str)  # columns: a name, or a number from 0
    data.text_pair = placeholder(str)
    data.label = placeholder(str)
    data.regression = False  # labels are numbers to predict
    data.format = placeholder(str)  # tsv, csv, jsonl, lines, label_text; None: by file name
    data.header = placeholder(bool)  # None: yes, unless all columns are numbers
    data.encoding = "utf-8"
    data.on_bad_text = "error"  # or skip, and count
    data.limit = placeholder(int)  # train on that many rows, drawn by train.seed
    data.vocab = placeholder(str)  # file; None: that of `pretrained`, or trained
    data.vocab_size = 8192
    data.lowercase = placeholder(bool)  # None: as `pretrained`, or True
    data.length = 128
    return data


def _classifier():
    model = ml_collections.ConfigDict()
    model.size = placeholder(str)  # tiny to large; None: that of `pretrained`, or tiny
    model.dropout = 0.1
    model.pooling = "cls"  # or mean: of all tokens, better after short pretraining
    return model


def fields(config, prefix=""):
    """Dotted names and values of all fields of a config."""
    for name, value in config.items():
        if isinstance(value, ml_collections.ConfigDict):
            yield from fields(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
