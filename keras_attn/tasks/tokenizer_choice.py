"""The tokenizer of a run: from `pretrained`, `data.vocab` or prepared text, or newly trained."""

import posixpath

from keras_attn.data.shards.prepare_folder import train_tokenizer
from keras_attn.data.shards.shard_files import is_prepared
from keras_attn.errors import UserError
from keras_attn.io.files import exists
from keras_attn.tasks.pretraining.splits import reading_of
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


def choose_tokenizer(run, texts=None, default=None, **options):
    """Writes the tokenizer of a new run to its workdir and returns it.

    Args:
        run: `Run`.
        texts: Function that returns the texts to train a tokenizer on; None: the tokenizer of the
            prepared text in `data.train`, or one trained on the text in `data.train`.
        default: Tokenizer to use where one would be trained on the text in `data.train`; None: it
            is trained.
        **options: Further arguments of the tokenizer training.

    Raises:
        UserError: If `data.vocab` differs from the tokenizer of `pretrained`, or is missing.
    """
    data, family = run.config.data, run.family
    kind = family.tokenizers
    lowercase = data.get("lowercase", False)
    if not run.resumed:
        chosen = kind.read(data.vocab, lowercase) if data.vocab else None
        if run.pretrained:
            if chosen and chosen.sha256 != run.pretrained.tokenizer.sha256:
                raise UserError(
                    "data.vocab must be the vocabulary of the pretrained model, or unset. "
                    f"Received: data.vocab={data.vocab}, "
                    f"pretrained={run.pretrained.path}"
                )
            chosen = run.pretrained.tokenizer
        if run.chief:
            if not chosen:
                chosen = (
                    kind.train(texts(), data.vocab_size, lowercase, **options)
                    if texts
                    else _tokenizer_of_text(data, kind, lowercase, run.say, default)
                )
            chosen.write(run.workdir.path)
    run.barrier()
    return family.read_tokenizer(run.workdir.path, run.resolved["data"])


def _tokenizer_of_text(data, kind, lowercase, say, default):
    """Reads the tokenizer of prepared text, or returns the default or one trained on text."""
    if not is_prepared(data.train):
        return default or train_tokenizer(
            kind, data.train, data.vocab_size, lowercase, say, **reading_of(data)
        )
    if not _has_tokenizer(data.train, kind):
        other = any(_has_tokenizer(data.train, one) for one in TOKENIZER_TYPES.values())
        advice = (
            f"Prepare the text in another folder with --tokenizer={kind.name}"
            if other
            else "Set data.vocab to the vocabulary that it was prepared with"
        )
        raise UserError(
            f"The prepared text lacks its vocabulary {kind.files[0]}. {advice}. "
            f"Received: data.train={data.train}, data.vocab=None"
        )
    return kind.read(data.train, lowercase)


def _has_tokenizer(folder, kind):
    return exists(posixpath.join(folder, kind.files[0]))
