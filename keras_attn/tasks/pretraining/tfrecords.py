"""Pretraining examples from TFRecords of google-research/bert or Model Garden."""

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from keras_attn.data.sources.files import find_files
from keras_attn.errors import UserError
from keras_attn.io import gfile
from keras_attn.tasks.pretraining.rows import (
    Recent,
    epoch_pieces,
    epoch_seed,
    join,
)

# Names in google-research/bert, and in Model Garden if they differ.
_FEATURES = {
    "token_ids": ("input_ids", "input_word_ids"),
    "segment_ids": ("segment_ids", "input_type_ids"),
    "padding_mask": ("input_mask",),
    "mask_positions": ("masked_lm_positions",),
    "mask_ids": ("masked_lm_ids",),
    "mask_weights": ("masked_lm_weights",),
    "next_sentence_label": ("next_sentence_labels",),
}
_GZIP = b"\x1f\x8b\x08"
_RECORDS_PER_PART = 65_536
_RECORDS_PER_PARSE = 2_048


class TFRecordExamples:
    """Infinite stream of the examples in files of `create_pretraining_data.py`.

    It has the interface of `PretrainingExamples`; pairs and masks come from the files. Each epoch
    contains each record once. The files, and blocks of 65,536 records of a file, are shuffled.

    Args:
        files: Paths or globs: a comma-separated str or a sequence. Files may be gzipped.
        tokenizer: `WordPieceTokenizer` with the vocabulary of the files.
        seed: Non-negative int.
        exact: Whether to use the order of the files and records.

    Attributes:
        num_examples: Number of records.
        length: Row length T, as in the first record.
        max_predictions: Maximum number P of masked tokens, as in the first record.

    Raises:
        UserError: If a file is missing or damaged, or has other features, lengths or ids.
    """

    def __init__(self, files, tokenizer, *, seed=0, exact=False):
        if seed < 0:
            raise UserError(f"seed must be at least 0. Received: seed={seed}")
        self.seed = seed
        self.exact = exact
        self._vocabulary_size = tokenizer.vocabulary_size
        paths = find_files(files)
        sizes = {path: size for path in paths if (size := _count(path))}
        if not sizes:
            raise UserError(f"There must be at least one TFRecord. Received: {files}")
        self._names, self.length, self.max_predictions = _layout(next(iter(sizes)))
        self._parts, counts = [], []
        for path, records in sizes.items():
            self._parse(path, _read(path, 0, 1))
            for skip in range(0, records, _RECORDS_PER_PART):
                self._parts.append((path, skip))
                counts.append(min(records - skip, _RECORDS_PER_PART))
        self._counts = np.array(counts, np.int64)
        self.num_examples = int(self._counts.sum())
        self._arrays = Recent(self._read_part)
        self._orders = Recent(self._permute)

    def rows(self, start, stop):
        """Returns rows `[start, stop)` of the stream, as `PretrainingExamples.rows`."""
        return join(
            self._rows(*piece)
            for piece in epoch_pieces(self._counts, start, stop, self.seed, self.exact)
        )

    def _rows(self, epoch, part, start, stop):
        arrays, rows = self._arrays(part), self._orders(epoch, part)[start:stop]
        return {
            name: array[rows].astype("float32" if name == "mask_weights" else "int32")
            for name, array in arrays.items()
        }

    def _permute(self, epoch, part):
        rows = np.arange(self._counts[part])
        if self.exact:
            return rows
        return np.random.default_rng(epoch_seed(self.seed, epoch, 1, part)).permutation(rows)

    def _read_part(self, part):
        path, skip = self._parts[part]
        records = _read(path, skip, int(self._counts[part]))
        chunks = range(0, len(records), _RECORDS_PER_PARSE)
        return join(self._parse(path, records[at : at + _RECORDS_PER_PARSE]) for at in chunks)

    def _parse(self, path, records):
        """Parses and checks records; returns small dtypes, because blocks stay in memory."""
        lengths = {"next_sentence_label": 1, "mask_weights": self.max_predictions}
        lengths |= dict.fromkeys(("mask_positions", "mask_ids"), self.max_predictions)
        features = {
            self._names[name]: tf.io.FixedLenFeature(
                [lengths.get(name, self.length)], tf.float32 if name == "mask_weights" else tf.int64
            )
            for name in _FEATURES
        }
        try:
            parsed = tf.io.parse_example(records, features)
        except tf.errors.InvalidArgumentError as error:
            raise UserError(
                "All records must have the features of create_pretraining_data.py, with "
                f"length={self.length} and max_predictions={self.max_predictions} as in the first "
                f"file. Received: {path}"
            ) from error
        arrays = {name: parsed[feature].numpy() for name, feature in self._names.items()}
        limits = dict.fromkeys(("token_ids", "mask_ids"), self._vocabulary_size)
        limits["mask_positions"] = self.length
        for name, array in arrays.items():
            limit = limits.get(name, 2)
            if name != "mask_weights" and not ((array >= 0) & (array < limit)).all():
                raise UserError(
                    f"{self._names[name]} must be in [0, {limit}). Do the records have another "
                    f"vocabulary? Received: {path}"
                )
            if name != "mask_weights":
                arrays[name] = array.astype(np.min_scalar_type(limit - 1))
        arrays["next_sentence_label"] = arrays["next_sentence_label"][:, 0]
        return arrays


def _layout(path):
    """Returns the feature names, T and P of the first record of a file."""
    try:
        record = tf.train.Example.FromString(_read(path, 0, 1)[0].numpy())
    except DecodeError as error:
        raise UserError(f"Records must be of type tf.train.Example. Received: {path}") from error
    sizes = {
        name: len(feature.float_list.value or feature.int64_list.value)
        for name, feature in record.features.feature.items()
    }
    names = {}
    for name, known in _FEATURES.items():
        names[name] = next((feature for feature in known if sizes.get(feature)), None)
        if names[name] is None:
            raise UserError(
                f"Records must have {known[0]}, as those of create_pretraining_data.py. "
                f"Received: {path} with {', '.join(sorted(sizes)) or 'no features'}"
            )
    return names, sizes[names["token_ids"]], sizes[names["mask_positions"]]


def _count(path):
    return sum(int(batch.shape[0]) for batch in _batches(path, _RECORDS_PER_PARSE))


def _read(path, skip, count):
    """Returns the serialized records `skip` to `skip + count` of a file, a string tensor."""
    records = next(_batches(path, count, skip), ())
    if len(records) < count:  # there were more when they were counted
        raise _damaged(path)
    return records


def _batches(path, size, skip=0):
    try:
        with gfile.open_file(path, "rb") as file:
            gzipped = file.read(len(_GZIP)) == _GZIP
        records = tf.data.TFRecordDataset(path, "GZIP" if gzipped else "")
        yield from records.skip(skip).batch(size)
    except (OSError, tf.errors.OpError) as error:
        raise _damaged(path) from error


def _damaged(path):
    return UserError(f"Cannot read {path}: the TFRecord file is damaged")
