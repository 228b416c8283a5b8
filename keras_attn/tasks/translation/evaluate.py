"""Evaluation of translators."""

import itertools

from keras_attn.data.sources.text_lines import SKIP_ADVICE
from keras_attn.errors import UserError
from keras_attn.tasks.translation.metrics import translation_scores
from keras_attn.tasks.translation.translator import read_sentences


def evaluate_translator(
    translator, source, target=None, batch_size=32, *, beam=None, length_penalty=None, reading=None
):
    """Evaluates a translator with the metrics of its run.

    Args:
        translator: `Translator` of a workdir.
        source, target: Aligned files, or only a table or TFDS set; see `read_parallel`.
        batch_size, beam, length_penalty: See `Translator.translate`.
        reading: Dict of `format`, `source_column`, `target_column`, `on_bad_text`, `encoding` and
            `max_line`, as in `config.data`; None: as in training. With `on_bad_text="skip"`, long
            sentences are skipped, too.

    Returns:
        Dict of `bleu`, `chrf`, their sacrebleu signatures, `examples` and `skipped`.

    Raises:
        UserError: If a sentence cannot be read, or a source sentence is too long.
    """
    options = translator.config["eval"]
    given = {name: value for name, value in (reading or {}).items() if value}
    data = translator.config["data"] | given
    texts = read_sentences(data, source, target, "test")
    # By the source only: the test set must not depend on how a model tokenizes references.
    rows = translator.encode(texts.sources)
    fits = [translator.fits(row) for row in rows]
    if not any(fits) or (not all(fits) and data["on_bad_text"] == "error"):
        raise UserError(
            f"Sentences must have at most {translator.length - 1} tokens. {SKIP_ADVICE} "
            f"longer ones. Received: {texts.where(fits.index(False))}"
        )
    found = translator.translate_ids(
        list(itertools.compress(rows, fits)),
        beam,
        length_penalty=length_penalty,
        batch_size=batch_size,
    )
    scores = translation_scores(
        [row[0]["text"] for row in found],
        list(itertools.compress(texts.targets, fits)),
        lowercase=options["lowercase"],
        tokenize=options["tokenize"],
    )
    return {
        **{name: score for name, (score, _) in scores.items()},
        **{f"{name}_signature": signature for name, (_, signature) in scores.items()},
        "examples": len(found),
        "skipped": sum(texts.skipped.values()) + len(rows) - len(found),
    }
