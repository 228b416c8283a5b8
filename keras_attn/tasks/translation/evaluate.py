"""Translators on other sentences."""

import itertools

from keras_attn.errors import UserError
from keras_attn.tasks.translation.metrics import translation_scores
from keras_attn.tasks.translation.translator import read_sentences


def evaluate_translator(
    translator, source, target=None, batch_size=32, *, beam=None, length_penalty=None, reading=None
):
    """Measures a translator on other sentences, as its run did.

    Args:
        translator: `Translator` of a workdir.
        source, target: Aligned files, or a table or TFDS set alone; see `read_parallel`.
        batch_size, beam, length_penalty: See `Translator.translate`.
        reading: Dict of `format`, `source_column`, `target_column`, `on_bad_text`, `encoding` and
            `max_line`, as in `config.data`; "skip" leaves out what is too long, too. None: as in
            training.

    Returns:
        Dict of `bleu`, `chrf`, sacrebleu's signatures of both, `examples` and `skipped`.

    Raises:
        UserError: If sentences cannot be read, or their source is too long.
    """
    usual = translator.config["eval"]
    given = {name: value for name, value in (reading or {}).items() if value}
    data = translator.config["data"] | given
    texts = read_sentences(data, source, target, "test")
    # By the source alone: what is scored must not depend on how a model cuts the references.
    rows = translator.encode(texts.sources)
    fits = [translator.fits(row) for row in rows]
    if not any(fits) or (not all(fits) and data["on_bad_text"] == "error"):
        raise UserError(
            f"Sentences of at most {translator.length - 1} tokens are needed; "
            "on_bad_text=skip leaves longer ones out. "
            f"Received: {texts.where(fits.index(False))}"
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
        lowercase=usual["lowercase"],
        tokenize=usual["tokenize"],
    )
    return {
        **{name: score for name, (score, _) in scores.items()},
        **{f"{name}_signature": signature for name, (_, signature) in scores.items()},
        "examples": len(found),
        "skipped": sum(texts.skipped.values()) + len(rows) - len(found),
    }
