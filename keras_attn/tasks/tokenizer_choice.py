"""The tokenizer of a run: that of `pretrained`, of prepared text, one given, or one trained."""

import posixpath

import tensorflow as tf

from keras_attn.data.shards.prepare_folder import train_tokenizer
from keras_attn.data.shards.shard_files import is_prepared
from keras_attn.errors import UserError
from keras_attn.tasks.pretraining.splits import reading_of


def choose_tokenizer(run, texts=None, **options):
    """Writes the tokenizer of a new run and returns it.

    Args:
        run: `Run`.
        texts: Function that returns the texts to train one on, where none is given; None: that of
            prepared text in `data.train`, or the text there to train one on.
        **options: Further arguments of the training.
    """
    data, family = run.config.data, run.family
    kind = family.tokenizers
    lowercase = data.get("lowercase", False)
    if not run.resumed:
        chosen = kind.read(data.vocab, lowercase) if data.vocab else None
        if run.pretrained:
            if chosen and chosen.sha256 != run.pretrained.tokenizer.sha256:
                raise UserError(
                    "data.vocab must be that of the pretrained model, or be left out. "
                    f"Received: data.vocab={data.vocab}, "
                    f"pretrained={run.pretrained.path}"
                )
            chosen = run.pretrained.tokenizer
        if run.chief:
            if not chosen:
                chosen = (
                    kind.train(texts(), data.vocab_size, lowercase, **options)
                    if texts
                    else _of_unlabelled(data, kind, lowercase, run.say)
                )
            chosen.write(run.workdir.path)
    run.meet()
    return family.read_tokenizer(run.workdir.path, run.resolved["data"])


def _of_unlabelled(data, kind, lowercase, say):
    """That beside prepared text, or one trained on the text."""
    if not is_prepared(data.train):
        return train_tokenizer(
            kind, data.train, data.vocab_size, lowercase, say, **reading_of(data)
        )
    if not tf.io.gfile.exists(posixpath.join(data.train, kind.files[0])):
        raise UserError(
            f"data.vocab is needed with a prepared folder without {kind.files[0]}, as "
            f"one not prepared with --tokenizer={kind.name}. "
            f"Received: data.vocab=None, data.train={data.train}"
        )
    return kind.read(data.train, lowercase)
