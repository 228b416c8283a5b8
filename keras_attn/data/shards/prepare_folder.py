"""Preparing a corpus: text in, a folder of shards and its vocabulary out."""

import functools
import logging
import os

from keras_attn.data.shards.prepare import prepare, sample_texts
from keras_attn.data.shards.shard_files import is_prepared
from keras_attn.data.sources.files import find_files
from keras_attn.errors import UserError
from keras_attn.text.recipes import KINDS

VOCABULARY_SAMPLE_BYTES = 50_000_000


def prepare_folder(source, folder, *, tokenizer="word_pieces", vocab=None, vocab_size=8192,
                   lowercase=None, split="train", processes=None, runner=None, beam_options="",
                   log=print, **reading):
    """Tokenises `source` into `folder`, with a vocabulary given or trained, which it then holds.

    Args:
        source, folder, split, processes, log: See `keras_attn.data.shards.prepare.prepare`.
        tokenizer: Kind of it: "word_pieces" of BERT, "byte_pairs" of GPT-2, "sentence_pieces" of
            XLNet.
        vocab: A folder with its files, or its file if it has one; None trains one.
        vocab_size: Of one that is trained.
        lowercase: Whether text is lower-cased; None: with word pieces.
        runner, beam_options: See `keras_attn.data.shards.beam.make_pipeline`; None is this machine.
        reading: `format`, `field`, `encoding`, `on_bad_text`, `max_line`.

    Returns:
        The index of the shards.
    """
    if not source or not folder:
        raise UserError("--input and --output are needed. "
                        f"Received: input={source}, output={folder}")
    if is_prepared(source):
        raise UserError(f"--input must be text. Received: input={source}, a prepared folder")
    _check_apart(source, folder)
    kind = KINDS[tokenizer]
    if lowercase is None:
        lowercase = kind.lowercase
    if lowercase and kind.verbatim:
        raise UserError(f"--lowercase must be left out with {tokenizer}, which keep the case. "
                        f"Received: lowercase={lowercase}")
    run_tasks = _beam_tasks(source, processes, runner, beam_options)
    # Trained also to go on: the same text and size give the same, others must not find it.
    chosen = (kind.read(vocab, lowercase) if vocab else train_tokenizer(
        kind, source, vocab_size, lowercase, log, split=split, **reading))
    index = prepare(
        source, chosen, folder, split=split, processes=processes, run_tasks=run_tasks, log=log,
        **reading,
    )
    chosen.write(folder)
    return index


def _check_apart(source, folder):
    """Raises UserError if files to read are in the folder to write, which has names of its own."""
    if source == "docstrings" or str(source).startswith("tfds:"):
        return
    for path in find_files(source):
        if os.path.realpath(os.path.dirname(path)) == os.path.realpath(folder):
            raise UserError("--output must be another folder than that of the input, where the "
                            f"vocabulary could replace it. Received: {path} in {folder}")


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
        from keras_attn.data.shards import beam
    except ModuleNotFoundError as error:
        if error.name != "apache_beam":
            raise
        raise UserError("--runner needs Apache Beam: pip install 'keras-attn[beam]'. "
                        f"Received: runner={runner}, not installed") from error
    finally:
        logging.disable(before)
    return functools.partial(beam.write_tasks, pipeline=beam.make_pipeline(runner, options))


def train_tokenizer(kind, source, size, lowercase, log=print, **reading):
    """Trains a tokenizer on a sample of a text source.

    Args:
        kind: `Kind`.
        source: See `keras_attn.data.shards.prepare.sample_texts`.
        size: Pieces at most.
        lowercase: Whether text is lower-cased.
        log: Takes a line of text.
        **reading: As those of `sample_texts`.
    """
    log(f"training a vocabulary of {size:,} {kind.name.replace('_', ' ')} on {source}")
    texts = sample_texts(source, limit_bytes=VOCABULARY_SAMPLE_BYTES, verbatim=kind.verbatim,
                         **reading)
    return kind.train(texts, size, lowercase)
