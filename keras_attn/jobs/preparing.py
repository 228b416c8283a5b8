"""Preparing a corpus: text in, a folder of shards and its vocabulary out."""

import functools
import itertools
import logging
import posixpath

from keras_attn.data.prepare import prepare, sample_texts
from keras_attn.data.shards import is_prepared
from keras_attn.errors import UserError
from keras_attn.text.vocabulary import read_vocabulary, train_vocabulary, write_vocabulary
from keras_attn.text.wordpiece import WordPieceTokenizer

VOCABULARY_SAMPLE_BYTES = 50_000_000


def prepare_folder(source, folder, *, vocab=None, vocab_size=8192, lowercase=True, split="train",
                   processes=None, runner=None, beam_options="", log=print, **reading):
    """Tokenises `source` into `folder`, with a vocabulary given or trained.

    Args:
        source, folder, split, processes, log: See `keras_attn.data.prepare.prepare`.
        vocab: Vocabulary file; None trains one and keeps it as `folder/vocab.txt`.
        vocab_size, lowercase: Of a trained vocabulary.
        runner, beam_options: See `keras_attn.data.beam.make_pipeline`; None is this machine.
        reading: `format`, `field`, `encoding`, `on_bad_text`.

    Returns:
        The index of the shards.
    """
    if not source or not folder:
        raise UserError("--input and --output are needed. "
                        f"Received: input={source}, output={folder}")
    if is_prepared(source):
        raise UserError(f"--input must be text. Received: input={source}, a prepared folder")
    run_tasks = _beam_tasks(source, processes, runner, beam_options)
    if vocab:
        vocabulary = read_vocabulary(vocab)
    else:
        # Also to go on: the same text and size give the same vocabulary, others must not find it.
        vocabulary = vocabulary_of(source, vocab_size, lowercase, log, split=split, **reading)
    tokenizer = WordPieceTokenizer(vocabulary, lowercase)
    index = prepare(
        source, tokenizer, folder, split=split, processes=processes, run_tasks=run_tasks, log=log,
        **reading,
    )
    write_vocabulary(posixpath.join(folder, "vocab.txt"), vocabulary)
    return index


def _beam_tasks(source, processes, runner, options):
    """Returns what does the tasks on a runner of Apache Beam; None without one."""
    if not runner:
        if options:
            raise UserError(f"--beam_options need --runner. Received: beam_options={options}")
        return None
    if processes:
        raise UserError("--processes are of this machine; with --runner=local give --beam_options="
                        f"'--direct_running_mode=multi_processing --direct_num_workers={processes}'"
                        f". Received: runner={runner}, processes={processes}")
    if source == "docstrings":
        raise UserError("With --runner --input must be files or tfds:NAME. Received: docstrings, "
                        "which another machine has of its own")
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # Beam's, about what it has no use for here
    try:
        from keras_attn.data import beam
    except ModuleNotFoundError as error:
        if error.name != "apache_beam":
            raise
        raise UserError("--runner needs Apache Beam: pip install 'keras-attn[beam]'. "
                        f"Received: runner={runner}, not installed") from error
    finally:
        logging.disable(before)
    return functools.partial(beam.write_tasks, pipeline=beam.make_pipeline(runner, options))


def vocabulary_of(source, size, lowercase, log=print, **reading):
    """Trains a vocabulary on a sample of a text source."""
    log(f"training a vocabulary of {size:,} word pieces on {source}")
    texts = iter(sample_texts(source, limit_bytes=VOCABULARY_SAMPLE_BYTES, **reading))
    first = next(texts, None)
    if first is None:
        raise UserError(f"The text must hold at least one word. Received: {source}")
    return train_vocabulary(itertools.chain([first], texts), size, lowercase)
