"""Splits of pretraining tasks: text without labels, and its shards."""

import re

import numpy as np

from keras_attn.counts import counted
from keras_attn.data.batches import StreamBatches
from keras_attn.data.shards.prepare import prepare
from keras_attn.data.shards.shard_files import is_prepared, read_index
from keras_attn.data.sources.files import file_sha256, find_files
from keras_attn.errors import UserError

PRETRAINING_MINUTES = 5.0  # default length of a run


def validation_of(data):
    """Returns the source of the validation text; None if there is none."""
    if data.validation is None and data.train == "docstrings":
        return "docstrings"
    return data.validation


def reading_of(data):
    """Returns the arguments of `prepare` for reading text."""
    return {
        "format": data.format,
        "encoding": data.encoding,
        "field": data.field,
        "on_bad_text": data.on_bad_text,
        "max_line": data.max_line,
    }


def prepared_folder(run, split, source, tokenizer):
    """Returns the folder with the shards of a split; the chief makes them if they are missing."""
    folder = _folder(run, split, source)
    # A resumed run uses its shards, even if the text has changed.
    if run.chief and folder != source and not (run.resumed and is_prepared(folder)):
        prepare(source, tokenizer, folder, split=split, log=run.say, **reading_of(run.config.data))
    run.barrier()
    return folder


def read_splits(run, examples):
    """Returns the training batches of a pretraining run, and the validation batches or None.

    Args:
        run: `Run`.
        examples: Function from the name of a split and its source to its examples.
    """
    config, data = run.config, run.config.data
    # The smaller split first, for early errors.
    source = validation_of(data)
    validation = examples("validation", source) if source else None
    train = examples("train", data.train)
    if not validation:
        run.say("no data.validation: the results will have no metrics")
    return StreamBatches(train, config.train.batch_size), validation and StreamBatches(
        validation, config.eval.batch_size, once=True, limit=config.eval.limit
    )


def check_targets(data, train, validation):
    """Raises a `UserError` for a split without tokens to predict, whose loss would be 0.

    Args:
        data: `config.data`.
        train, validation: `StreamBatches` of rows with `mask_weights`; validation may be None.
    """
    for field, batches, source in (
        ("data.validation", validation, validation_of(data)),
        ("data.train", train, data.train),
    ):
        if batches and not any(
            batches.batch(number, 0, batches.batch_size)["mask_weights"].any()
            for number in range(batches.num_batches)
        ):
            raise UserError(
                f"{field} must contain tokens to predict that are not [UNK]. Received: "
                f"{field}={source}, none in {counted(batches.num_examples, 'row')}"
            )


def characters_per_target(batches, lengths):
    """Returns the mean number of characters of the tokens to predict.

    Args:
        batches: `StreamBatches` of rows with `mask_ids` and `mask_weights`.
        lengths: Number of characters of each token of the vocabulary, `(V,)`, or K such numbers,
            `(V, K)`.

    Returns:
        A float, or an array `(K,)`.
    """
    lengths, characters, targets = np.array(lengths), 0.0, 0.0
    for number in range(batches.num_batches):
        batch = batches.batch(number, 0, batches.batch_size)
        weights = batch["mask_weights"] * batch["sample_weight"][:, None]
        # (B, P) x (B, P, K) -> (K,)
        characters += np.tensordot(weights, lengths[batch["mask_ids"]], axes=2)
        targets += np.sum(weights, dtype=np.float64)
    return np.maximum(characters, 1) / targets


def is_tfrecord(data, source):
    """Returns whether a source is TFRecords, by `data.format` or by its name."""
    return data.format == "tfrecord" or bool(re.search(r"\.tf_?records?(\.gz)?(\W|$)", source))


def _hashes_of_shards(run, split, source):
    """Returns the SHA-256 of the files and the shards of a split, by name."""
    index = read_index(_folder(run, split, source))
    files = index["source"]["source"].get("files", ())
    return {
        **{file["file"]: file["sha256"] for file in files},
        **{f"{split}/{shard['file']}": shard["sha256"] for shard in index["shards"]},
    }


def hashes_of_splits(run):
    """Returns the SHA-256 of each split's TFRecords, or of its text and its shards, by name."""
    hashes, data = {}, run.config.data
    for split, source in (("train", data.train), ("validation", validation_of(data))):
        if source and is_tfrecord(data, source):
            hashes.update({name: file_sha256(name) for name in find_files(source)})
        elif source:
            hashes.update(_hashes_of_shards(run, split, source))
    return hashes


def _folder(run, split, source):
    return source if is_prepared(source) else run.workdir / f"data/{split}"
