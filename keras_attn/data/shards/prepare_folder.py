"""Prepares a corpus: converts text to a folder with shards and their vocabulary."""

import functools
import logging
import os
import time

from keras_attn.data.shards.prepare import prepare, sample_texts
from keras_attn.data.shards.shard_files import is_prepared
from keras_attn.data.sources.files import find_files
from keras_attn.errors import UserError
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES

OLDER_NAMES = {
    "word_pieces": "wordpiece",
    "byte_pairs": "bpe",
    "sentence_pieces": "sentencepiece",
}  # of tokenizer types
VOCABULARY_SAMPLE_BYTES = 50_000_000


def prepare_folder(
    source,
    folder,
    *,
    tokenizer="wordpiece",
    vocab=None,
    vocab_size=8192,
    lowercase=None,
    split="train",
    processes=None,
    runner=None,
    beam_options="",
    log=print,
    **reading,
):
    """Tokenizes `source` into `folder` with a given or trained vocabulary, which is stored there,
    too.

    Args:
        source: See `keras_attn.data.shards.prepare.prepare`.
        folder: See `keras_attn.data.shards.prepare.prepare`.
        tokenizer: Tokenizer type: "wordpiece" (BERT), "bpe" (GPT-2), "roberta_bpe" (RoBERTa),
            "modernbert_bpe" (ModernBERT) or "sentencepiece" (XLNet).
        vocab: A folder with the tokenizer's files, or its single file; None trains a vocabulary.
        vocab_size: Maximum size of a trained vocabulary.
        lowercase: Whether text is lower-cased; by default only with "wordpiece".
        split: See `keras_attn.data.shards.prepare.prepare`.
        processes: See `keras_attn.data.shards.prepare.prepare`.
        runner: See `keras_attn.data.shards.beam.make_pipeline`; None: this machine.
        beam_options: See `keras_attn.data.shards.beam.make_pipeline`.
        log: See `keras_attn.data.shards.prepare.prepare`.
        **reading: `format`, `field`, `encoding`, `on_bad_text`, `max_line`.

    Returns:
        The index of the shards.
    """
    if not source or not folder:
        raise UserError(
            f"--input and --output are required. Received: input={source}, output={folder}"
        )
    if is_prepared(source):
        raise UserError(f"--input must be text. Received: input={source}, a prepared folder")
    _check_apart(source, folder)
    kind = TOKENIZER_TYPES[OLDER_NAMES.get(tokenizer, tokenizer)]
    if lowercase is None:
        lowercase = kind.lowercase
    if lowercase and kind.keeps_case:
        raise UserError(
            f"--lowercase is not supported with {tokenizer}, which keeps the case. "
            f"Received: lowercase={lowercase}"
        )
    run_tasks = _beam_tasks(source, processes, runner, beam_options)
    # A vocabulary is trained even to resume: the same text and size give the same vocabulary, and
    # a folder with other ones must not be reused.
    chosen = (
        kind.read(vocab, lowercase)
        if vocab
        else train_tokenizer(kind, source, vocab_size, lowercase, log, split=split, **reading)
    )
    index = prepare(
        source,
        chosen,
        folder,
        split=split,
        processes=processes,
        run_tasks=run_tasks,
        log=log,
        **reading,
    )
    chosen.write(folder)
    return index


def _check_apart(source, folder):
    """Raises UserError if input files are in the output folder, where they could be overwritten."""
    if source == "docstrings" or str(source).startswith("tfds:"):
        return
    for path in find_files(source):
        if os.path.realpath(os.path.dirname(path)) == os.path.realpath(folder):
            raise UserError(
                "--output must not be the folder of the input, where the vocabulary "
                f"could overwrite it. Received: {path} in {folder}"
            )


def _beam_tasks(source, processes, runner, options):
    """Returns a function that runs tasks on Apache Beam, or None without a runner."""
    if not runner:
        if options:
            raise UserError(f"--beam_options requires --runner. Received: beam_options={options}")
        return None
    if processes:
        raise UserError(
            "--processes only works without --runner. With --runner=local, set "
            "--beam_options='--direct_running_mode=multi_processing "
            f"--direct_num_workers={processes}'. "
            f"Received: runner={runner}, processes={processes}"
        )
    if source == "docstrings":
        raise UserError(
            "With --runner, --input must be files or tfds:NAME. Received: docstrings, "
            "which differ on other machines"
        )
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # Beam warns about missing optional packages
    try:
        from keras_attn.data.shards import beam
    except ModuleNotFoundError as error:
        if error.name != "apache_beam":
            raise
        raise UserError(
            "--runner requires Apache Beam: pip install 'keras-attn[beam]'. "
            f"Received: runner={runner}, not installed"
        ) from error
    finally:
        logging.disable(before)
    return functools.partial(beam.write_tasks, pipeline=beam.make_pipeline(runner, options))


def train_tokenizer(kind, source, size, lowercase, log=print, **reading):
    """Trains a tokenizer on a sample of a text source.

    Args:
        kind: `TokenizerType`.
        source: See `keras_attn.data.shards.prepare.sample_texts`.
        size: Maximum vocabulary size.
        lowercase: Whether text is lower-cased.
        log: Called with lines of text.
        **reading: See `keras_attn.data.shards.prepare.sample_texts`.
    """
    log(f"training a {kind.title} vocabulary of at most {size:,} tokens on {source}")
    begin = time.monotonic()
    texts = sample_texts(
        source, limit_bytes=VOCABULARY_SAMPLE_BYTES, verbatim=kind.verbatim, **reading
    )
    tokenizer = kind.train(texts, size, lowercase)
    log(f"vocabulary: {tokenizer.vocabulary_size:,} tokens; {time.monotonic() - begin:.1f} s")
    return tokenizer
