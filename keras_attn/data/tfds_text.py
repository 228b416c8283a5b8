"""Text of TensorFlow Datasets as documents, one record each."""

import re

from keras_attn.errors import UserError
from keras_attn.text.sentences import split_long, split_sentences

# A version starts with a digit, a split does not.
_SOURCE = re.compile(r"tfds:(?P<name>[^:]+(?::\d[\d.*]*)?)(?::(?P<split>[^\d].*))?")


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
    match = _SOURCE.fullmatch(source)
    if match is None:
        raise UserError(f"A source of TFDS is tfds:NAME[/CONFIG][:SPLIT]. Received: {source}")
    name, split = match["name"], match["split"] or split
    builder = _builder(name)
    try:
        info = builder.info.splits[split]
    except (KeyError, ValueError) as error:
        raise UserError(
            f"The split of {name} must be one of {', '.join(builder.info.splits)}, or a part of it "
            f"such as {next(iter(builder.info.splits))}[:10%]. Received: {split}"
        ) from error
    features = builder.info.features
    texts = sorted(key for key, feature in features.items() if _is_text(feature))
    if field not in texts:
        raise UserError(
            f"The field of {name} must be text, one of {', '.join(texts)}. Received: {field}"
        )
    if not info.num_examples:
        raise UserError(f"The split must hold an example. Received: {name}, {split}")
    whole = builder.info.splits[split.partition("[")[0]]
    size = whole.num_bytes * info.num_examples // whole.num_examples
    return name, split, int(info.num_examples), int(size)


def read_documents(name, split, field, start, stop):
    """Yields the documents of examples [start, stop), lists of str.

    A split that is a part already, such as `train[:10%]`, is read whole.
    """
    import tensorflow_datasets as tfds

    examples = _builder(name).as_dataset(
        split=split if "[" in split else f"{split}[{start}:{stop}]",
        shuffle_files=False,
        read_config=tfds.ReadConfig(interleave_cycle_length=1),
        decoders=tfds.decode.PartialDecoding([field]),
    )
    for example in examples.as_numpy_iterator():
        text = example[field].decode("utf-8", "replace")
        document = [
            part
            for paragraph in text.splitlines()
            for sentence in split_sentences(paragraph)
            for part in split_long(sentence)
        ]
        if document:
            yield document


def _builder(name):
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name)
        builder.download_and_prepare()
    except (tfds.core.DatasetNotFoundError, OSError, ValueError, AssertionError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"A tfds: source needs a dataset that TFDS knows. Received: {name} ({reason})"
        ) from error
    return builder


def _is_text(feature):
    return not feature.shape and feature.np_dtype in (str, bytes, object)
