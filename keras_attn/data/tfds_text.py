"""Text of TensorFlow Datasets as documents, one record each."""

from keras_attn.errors import UserError
from keras_attn.text.sentences import split_long, split_sentences


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
    name = source.removeprefix("tfds:")
    head, _, last = name.rpartition(":")
    if head and not last[:1].isdigit():  # NAME:1.0.0 is a version
        name, split = head, last
    builder = _builder(name)
    if split not in builder.info.splits:
        known = ", ".join(builder.info.splits) or "none: it has not been prepared"
        raise UserError(f"The split of {name} must be one of {known}. Received: {split}")
    features = builder.info.features
    if field not in features or features[field].dtype not in (str, bytes, object):
        texts = [key for key, feature in features.items() if feature.dtype in (str, bytes, object)]
        raise UserError(
            f"The field of {name} must be text, one of {', '.join(texts)}. Received: {field}"
        )
    info = builder.info.splits[split]
    if not info.num_examples:
        raise UserError(f"The split must hold an example. Received: {name}, {split}")
    return name, split, int(info.num_examples), int(info.num_bytes)


def read_documents(name, split, field, start, stop):
    """Yields the documents of examples [start, stop), lists of str."""
    import tensorflow_datasets as tfds

    examples = _builder(name).as_dataset(
        split=f"{split}[{start}:{stop}]",
        shuffle_files=False,
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
    except (tfds.core.DatasetNotFoundError, ValueError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"A tfds: source needs a dataset that TFDS knows. Received: {name} ({reason})"
        ) from error
    return builder
