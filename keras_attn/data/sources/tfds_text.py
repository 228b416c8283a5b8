"""Text of TensorFlow Datasets: documents, one record each, or rows of a table."""

import json
import re
import socket
import urllib.parse
import urllib.request

import tensorflow as tf

from keras_attn.data.sources.documents import document_of
from keras_attn.data.sources.table_formats import BadRow, refuse_column
from keras_attn.errors import UserError

# A version starts with a digit, a split does not.
_SOURCE = re.compile(r"tfds:(?P<name>[^:]+(?::\d[\d.*]*)?)(?::(?P<split>[^\d].*))?")

_PORTS = {"https": 443, "http": 80, "ftp": 21}
_PROBED_HOSTS = 2
_SECONDS_TO_CONNECT = 3.0


def parse(source, split):
    """Returns (name, split) of `tfds:NAME[/CONFIG][:VERSION][:SPLIT]`.

    Args:
        source: The name.
        split: The split, if the source names none.

    Raises:
        UserError: If the source is not of that form.
    """
    match = _SOURCE.fullmatch(source)
    if match is None:
        raise UserError(f"A source of TFDS is tfds:NAME[/CONFIG][:SPLIT]. Received: {source}")
    return match["name"], match["split"] or split


def look_up(source, split, field):
    """Finds a prepared or downloadable dataset and checks that it has the field.

    Args:
        source: `tfds:NAME[/CONFIG][:VERSION][:SPLIT]`.
        split: The split, if the source names none.
        field: The feature that holds the text.

    Returns:
        (name, split, number of examples, bytes).

    Raises:
        UserError: If there is no such dataset, split or feature.
    """
    name, split = parse(source, split)
    builder = _builder(name)
    examples = _count(builder, name, split)
    features = builder.info.features
    texts = sorted(key for key, feature in features.items() if _is_text(feature))
    if field not in texts:
        raise UserError(
            f"The field of {name} must be text, one of {', '.join(texts)}. Received: {field}"
        )
    whole = builder.info.splits[split.partition("[")[0]]
    size = whole.num_bytes * examples // whole.num_examples
    return name, split, examples, int(size)


def read_documents(name, split, field, start, stop, verbatim=False):
    """Yields the documents of examples [start, stop), lists of str; see `documents`.

    What is no whole split, such as `train[:10%]` or `train+test`, is read from its beginning.
    """
    import tensorflow_datasets as tfds

    builder = _builder(name)
    # TFDS cuts names of splits alone: train+test[0:5] is all of train and a part of test.
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
    """Yields the rows of a split as `table_formats` does; class labels become their names."""
    import tensorflow_datasets as tfds

    builder = _builder(name)
    _count(builder, name, split)
    features = builder.info.features
    keys = [str(column) for column in columns]
    for key in keys:
        if key not in features:
            refuse_column(key, list(features), f"tfds:{name}")
    examples = builder.as_dataset(
        split=split, shuffle_files=False, read_config=tfds.ReadConfig(interleave_cycle_length=1)
    )
    for number, example in enumerate(examples.as_numpy_iterator(), 1):
        try:
            yield number, [_as_string(example[key], features[key]) for key in keys]
        except UnicodeDecodeError:
            yield number, BadRow("encoding", "Text in utf-8 is needed")


def _builder(name):
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name)
    except Exception as error:
        raise _refusal("A data set that TFDS knows is needed", name, error) from error
    if not tf.io.gfile.exists(builder.data_dir) and not _has_downloads(builder):
        _check_network(name, builder)
    try:
        builder.download_and_prepare()
    # The code of the data set runs here, and what goes wrong in a download has no common class.
    except Exception as error:
        need = "TFDS must be able to prepare the data set; without network, name local files"
        raise _refusal(need, name, error) from error
    return builder


def _has_downloads(builder):
    """Whether files that the data set is made from may be here already."""
    downloads = builder.data_dir.removesuffix(builder.info.full_name) + "downloads"
    return any(tf.io.gfile.glob(f"{downloads}/{pattern}")
               for pattern in (f"{builder.name}/*.INFO*", "*.INFO*", "manual/*"))


def _check_network(name, builder):
    """Raises a UserError without network, where TFDS would try again for minutes."""
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
    raise UserError(f"tfds:{name} is not in {builder.data_dir} and cannot be downloaded: {host} is "
                    f"not reachable ({error.strerror or error}). Check the network, set "
                    "TFDS_DATA_DIR to a folder that holds the data set, or give local files.")


def _refusal(need, name, error):
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return UserError(f"{need}. Received: tfds:{name} ({reason})")


def _count(builder, name, split):
    """Returns how many examples a split has; refuses one that is not there or empty."""
    known = builder.info.splits
    try:
        examples = int(known[split].num_examples)
    except (KeyError, ValueError, AssertionError, NotImplementedError) as error:
        raise UserError(
            f"The split of {name} must be one of {', '.join(known)}, or a part of it such as "
            f"{next(iter(known))}[:10%]. Received: {split}"
        ) from error
    if not examples:
        raise UserError(f"The split must hold an example. Received: {name}, {split}")
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
