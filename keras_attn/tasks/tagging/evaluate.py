"""Evaluation of taggers on sentences with tags."""

from keras_attn.tasks.tagging.metrics import metric_names, scores_by_type, tag_metrics
from keras_attn.tasks.tagging.prediction_files import options_of
from keras_attn.tasks.tagging.schemes import detect_scheme
from keras_attn.tasks.tagging.sentences import encode_tags, read_sentences
from keras_attn.tasks.tagging.splits import complete_names, with_iob2


def evaluate(tagger, data, batch_size, reading, scheme=None):
    """Evaluates a tagger on labeled sentences.

    Args:
        tagger: `Tagger`.
        data: CoNLL, CoNLL-U or JSONL file, or a glob.
        batch_size: Batch size; the results do not depend on it.
        reading: Arguments of `SentenceFile`; a value None: as in training.
        scheme: Tagging scheme of the data; None: as in training.

    Returns:
        Dict of the metrics, `examples`, `words`, `skipped` and `types`: scores by type.

    Raises:
        UserError: If the data or a tag are invalid.
    """
    trained = tagger.config["data"]
    options = options_of(tagger, reading)
    sentences = read_sentences(data, **options)
    # A model of another library does not record the scheme of its data.
    scheme = scheme or trained["scheme"] or detect_scheme(row.tags for row in sentences.rows)
    sentences = with_iob2(sentences, scheme, options["on_bad_text"])
    encode_tags(sentences, complete_names(tagger.labels, tagger.scheme))  # raises for others
    metric_names(tagger.scheme)  # raises without seqeval, before the prediction
    predicted = [found["tags"] for found in tagger.tag(sentences.words, batch_size)]
    actual = [row.tags for row in sentences.rows]
    return {
        **tag_metrics(actual, predicted, tagger.scheme),
        "examples": len(sentences),
        "words": sentences.num_words,
        "skipped": sentences.skipped,
        "types": scores_by_type(actual, predicted, tagger.scheme),
    }
