"""Training and validation split of tagging: sentences with tags of one scheme."""

import dataclasses

from keras_attn.data.sources.files import file_sha256, texts_sha256
from keras_attn.data.sources.text_lines import SKIP_ADVICE
from keras_attn.errors import UserError
from keras_attn.tasks.finetuning.choices import choose_rows
from keras_attn.tasks.tagging.schemes import (
    IOB2,
    OUTSIDE,
    RAW,
    detect_scheme,
    split_tag,
    to_iob2,
)
from keras_attn.tasks.tagging.sentences import count_tags, read_sentences


def read_splits(run):
    """Reads the data of a run.

    Args:
        run: `Run`.

    Returns:
        (`Sentences` by split, the one of `validation` None if there is none, with IOB2 or raw tags;
        the scheme of these tags; the names of the tags in alphabetical order).
    """
    data = run.config.data
    if not data.train:
        raise UserError(
            "data.train must be set to the training data: a CoNLL, CoNLL-U or JSONL file, or a "
            "glob. Received: data.train=None"
        )
    found = {
        split: data[split]
        and read_sentences(
            data[split],
            **{name: data[name] for name in ("format", "text", "label", "encoding")},
            on_bad_text=data.on_bad_text,
            max_line=data.max_line,
        )
        for split in ("train", "validation")
    }
    if data.scheme is None:
        run.set_field("data.scheme", detect_scheme(row.tags for row in found["train"].rows))
        _warn_of_other_tags(run, found["train"])
    found = {
        split: own and with_iob2(own, data.scheme, data.on_bad_text) for split, own in found.items()
    }
    counts = count_tags(found["train"])
    if len(counts) < 2:
        raise UserError(
            "The training data must have at least two tags. Is data.label the right column? "
            f"Received: {next(iter(counts))!r} for all words of {data.train}"
        )
    names = complete_names(counts, data.scheme)
    return choose_rows(run, found, "sentences"), target_scheme(data.scheme), names


def _warn_of_other_tags(run, sentences):
    """Warns of a tag that is not that of an entity among those of entities, which makes all raw."""
    typed, other = None, None
    for row in sentences.rows:
        for number, tag in enumerate(row.tags):
            kind = split_tag(tag)[1]
            if kind is not None and "-" in tag:
                typed = typed or tag
            elif kind is None and tag != OUTSIDE:
                other = other or (tag, row.where(number))
    if typed and other:
        run.say(
            f"warning: all tags are read as raw tags, also {typed!r}, because {other[0]!r} in "
            f"{other[1]} is not the tag of an entity. Correct it, or set data.scheme"
        )


def target_scheme(scheme):
    """Returns the scheme of the tags that a model predicts."""
    return RAW if scheme == RAW else IOB2


def with_iob2(sentences, scheme, on_bad_text):
    """Converts the tags of sentences to IOB2, unless they are raw.

    Args:
        sentences: `Sentences`.
        scheme: Their scheme.
        on_bad_text: "error", or "skip" to leave out sentences with an invalid tag.

    Raises:
        UserError: If a tag is invalid in the scheme.
    """
    rows, skipped = [], sentences.skipped
    for row in sentences.rows:
        tags, wrong = to_iob2(row.tags, scheme)
        if wrong is None:
            rows.append(row._replace(tags=tags))
        elif on_bad_text == "skip":
            skipped += 1
        else:
            before = repr(row.tags[wrong - 1]) if wrong else "the start of the sentence"
            last = wrong == len(row.tags)
            found = "the end of the sentence" if last else repr(row.tags[wrong])
            raise UserError(
                f"Tags must be valid in the scheme {scheme} (data.scheme, --scheme). "
                f"{SKIP_ADVICE} such sentences. "
                f"Received: {found} after {before} in {row.where(wrong - last)}"
            )
    if not rows:
        raise UserError(
            f"The data must have a sentence that is valid in the scheme {scheme} (data.scheme, "
            f"--scheme). Received: none in {', '.join(sentences.files)}"
        )
    return dataclasses.replace(sentences, rows=rows, skipped=skipped)


def hashes_of(run, splits):
    """Returns the SHA-256 of the tokenizer, the data files and the sentences of each split."""
    hashes = run.tokenizer_hashes()
    for split, sentences in splits.items():
        if sentences:
            hashes.update({name: file_sha256(name) for name in sentences.files})
            rows = ((*row.words, *row.tags) for row in sentences.rows)
            hashes[f"{split} sentences"] = texts_sha256(rows)
    return hashes


def complete_names(names, scheme):
    """Returns the sorted names; for entities with `O`, and with `B-X` and `I-X` of each type."""
    if scheme == RAW:
        return tuple(sorted(names))
    kinds = {name[2:] for name in names if name != OUTSIDE}
    return tuple(sorted([OUTSIDE, *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI")]))
