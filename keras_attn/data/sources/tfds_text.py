"""Text of TensorFlow Datasets: documents (one per record), or rows of a table."""

import json
import re
import socket
import urllib.parse
import urllib.request

from keras_attn.data.sources.documents import document_of
from keras_attn.data.sources.table_formats import BadRow, raise_missing_column
from keras_attn.errors import UserError
from keras_attn.io import gfile

# A version starts with a digit, a split does not.
_SOURCE = re.compile(r"tfds:(?P<name>[^:]+(?::\d[\d.*]*)?)(?::(?P<split>[^\d].*))?")

_PORTS = {"https": 443, "http": 80, "ftp": 21}
_PROBED_HOSTS = 2
_SECONDS_TO_CONNECT = 3.0


def parse(source, split):
    """Parses `tfds:NAME[/CONFIG][:VERSION][:SPLIT]` into (name, split).

    Args:
        source: The name.
        split: The default split.

    Raises:
        UserError: If the source has another form.
    """
    match = _SOURCE.fullmatch(source)
    if match is None:
        raise UserError(
            "A TFDS source must be of the form tfds:NAME[/CONFIG][:VERSION][:SPLIT]. "
            f"Received: {source}"
        )
    return match["name"], match["split"] or split


def look_up(source, split, field):
    """Prepares a dataset, downloading it if necessary, and checks that it has the field.

    Args:
        source: `tfds:NAME[/CONFIG][:VERSION][:SPLIT]`.
        split: The default split.
        field: Name of the text feature.

    Returns:
        (name, split, number of examples, size in bytes).

    Raises:
        UserError: If the dataset, the split or the feature does not exist.
    """
    name, split = parse(source, split)
    builder = _builder(name)
    examples = _count(builder, name, split)
    features = builder.info.features
    texts = sorted(key for key, feature in features.items() if _is_text(feature))
    if field not in texts:
        raise UserError(
            f"The field of {name} must be a text feature: {', '.join(texts)}. Received: {field}"
        )
    whole = builder.info.splits[split.partition("[")[0]]
    size = whole.num_bytes * examples // whole.num_examples
    return name, split, examples, int(size)


def read_documents(name, split, field, start, stop, verbatim=False):
    """Yields the documents of examples [start, stop) as lists of str; see `documents`.

    Splits such as `train[:10%]` or `train+test` are read from the start.
    """
    import tensorflow_datasets as tfds

    builder = _builder(name)
    # TFDS only slices single splits: train+test[0:5] is all of train and a part of test.
    plain = split in builder.info.splits
    examples = builder.as_dataset(
        split=f"{split}[{start}:{stop}]" if plain else split,
        shuffle_files=False,
        read_config=tfds.ReadConfig(interleave_cycle_length=1),
        decoders=tfds.decode.PartialDecoding([field]),
    )
    if not plain:
        examples = examples.skip(start).take(stop - start)
    for example in examples.as_numpy_iterator():
        document = document_of(example[field].decode("utf-8", "replace"), verbatim)
        if document:
            yield document


def rows(name, split, columns):
    """Yields the rows of a split like `table_formats`, class labels as their names."""
    import tensorflow_datasets as tfds

    builder = _builder(name)
    _count(builder, name, split)
    features = builder.info.features
    keys = [str(column) for column in columns]
    for key in keys:
        if key not in features:
            raise_missing_column(key, list(features), f"tfds:{name}")
    examples = builder.as_dataset(
        split=split, shuffle_files=False, read_config=tfds.ReadConfig(interleave_cycle_length=1)
    )
    for number, example in enumerate(examples.as_numpy_iterator(), 1):
        try:
            yield number, [_as_string(example[key], features[key]) for key in keys]
        except UnicodeDecodeError:
            yield number, BadRow("encoding", "The text must be utf-8")


def _builder(name):
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name)
    except Exception as error:
        raise _error("Unknown TFDS dataset", name, error) from error
    if not gfile.exists(builder.data_dir) and not _has_downloads(builder):
        _check_network(name, builder)
    try:
        builder.download_and_prepare()
    # This runs the code of the dataset, and download errors have no common class.
    except Exception as error:
        raise _error(
            "TFDS cannot prepare the dataset. Without network, pass local files", name, error
        ) from error
    return builder


def _has_downloads(builder):
    """Whether the source files of the dataset may have been downloaded already."""
    downloads = builder.data_dir.removesuffix(builder.info.full_name) + "downloads"
    return any(
        gfile.glob(f"{downloads}/{pattern}")
        for pattern in (f"{builder.name}/*.INFO*", "*.INFO*", "manual/*")
    )


def _check_network(name, builder):
    """Raises a UserError if the network is down, as TFDS would retry for minutes."""
    hosts = {}
    for url in map(urllib.parse.urlsplit, builder.url_infos or ()):
        if url.hostname and url.scheme in _PORTS:
            hosts[url.hostname] = url.port or _PORTS[url.scheme]
    if not hosts or urllib.request.getproxies():
        return
    for address in list(hosts.items())[:_PROBED_HOSTS]:
        try:
            socket.create_connection(address, _SECONDS_TO_CONNECT).close()
            return
        except OSError as caught:
            host, error = address[0], caught
    raise UserError(
        f"tfds:{name} is not in {builder.data_dir} and cannot be downloaded: {host} is "
        f"not reachable ({error.strerror or error}). Check the network, set "
        "TFDS_DATA_DIR to a folder that contains the dataset, or pass local files."
    )


def _error(problem, name, error):
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return UserError(f"{problem}. Received: tfds:{name} ({reason})")


def _count(builder, name, split):
    """Returns the number of examples in a split; raises UserError if it is missing or empty."""
    known = builder.info.splits
    try:
        examples = int(known[split].num_examples)
    except (KeyError, ValueError, AssertionError, NotImplementedError) as error:
        raise UserError(
            f"The split of {name} must be one of {', '.join(known)}, or a part of it such as "
            f"{next(iter(known))}[:10%]. Received: {split}"
        ) from error
    if not examples:
        raise UserError(f"The split {split} of {name} must contain an example. Received: none")
    return examples


def _is_text(feature):
    return not feature.shape and feature.np_dtype in (str, bytes, object)


def _as_string(value, feature):
    inner = getattr(feature, "feature", None)
    if inner is not None:  # a sequence of labels
        return json.dumps([_as_string(part, inner) for part in value], ensure_ascii=False)
    if hasattr(feature, "int2str"):
        return feature.int2str(int(value)) if value >= 0 else ""  # -1: a hidden label
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
