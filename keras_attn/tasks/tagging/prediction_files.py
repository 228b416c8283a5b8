"""Prediction of texts and files with taggers."""

import itertools
import json
import os
import sys

from keras_attn.counts import counted
from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.record_formats import json_rows
from keras_attn.data.sources.streams import display_name
from keras_attn.data.sources.table_formats import BadRow, Lines, format_from_name
from keras_attn.data.sources.tables import iterate_rows
from keras_attn.errors import UserError
from keras_attn.tasks.tagging.fields import FORMATS
from keras_attn.tasks.tagging.sentences import SentenceFile, format_of_sentences
from keras_attn.tasks.tagging.tagger import Tagger

CHUNK = 1024  # sentences held in memory


def predict_texts(tagger, texts, file, output):
    """Writes the tags of raw texts; see `Task.predict_texts`."""
    for found in tagger.predict(texts):
        _write(file, output, found)


def predict_file(tagger, source, file, output, batch_size, reading):
    """Writes the tags of a file, in constant memory; see `Task.predict_file`.

    CoNLL, CoNLL-U and JSONL files contain words. Other formats, and JSONL files whose column is a
    string, contain raw texts.
    """
    count = skipped = 0
    for path in find_files(source):
        format = reading["format"] or _format(tagger, path)
        if not reading["format"] and path.lower().removesuffix(".gz").endswith(".txt"):
            print(f"reading {display_name(path)} as {format} (--format)", file=sys.stderr)
        given = {**options_of(tagger, reading, tags=False), "format": format}
        if _contains_words(path, given):
            rows, read, predict = SentenceFile(path, **given), _words, _tag
        else:
            rows, read, predict = _texts(path, given), _text, Tagger.predict
        iterator = iter(rows)
        while part := list(itertools.islice(iterator, CHUNK)):
            for found in predict(tagger, [*map(read, part)], batch_size):
                _write(file, output, found)
            count += len(part)
        counts = rows.skipped  # a number, or by reason
        skipped += counts if isinstance(counts, int) else sum(counts.values())
    print(f"{counted(count, 'sentence')} predicted, {skipped:,} skipped", file=sys.stderr)


def options_of(tagger, reading, tags=True):
    """Returns the arguments of `SentenceFile`; a value None is replaced by that of training.

    Args:
        tagger: `Tagger`.
        reading: Given arguments.
        tags: Whether to read tags.
    """
    data = tagger.config["data"]
    names = ("format", "text", "label", "encoding", "on_bad_text", "max_line")
    found = {name: data.get(name) if reading.get(name) is None else reading[name] for name in names}
    return {**found, "tags": tags}


def _format(tagger, path):
    """Returns the format of a file: of training files with its extension, else by its name."""
    data = tagger.config["data"]
    ending, trained = (
        os.path.splitext((name or "").lower().removesuffix(".gz"))[1]
        for name in (path, data["train"])
    )
    if ending == trained:
        return data["format"] or format_of_sentences(path)
    return format_from_name(path) or format_of_sentences(path)


def _contains_words(path, given):
    if given["format"] != "jsonl":
        return given["format"] in FORMATS
    lines = Lines(path, given["encoding"], given["max_line"])
    rows = json_rows(lines, [given["text"] or "tokens"], display_name(path))
    found = (values[0] for _, values in rows if not isinstance(values, BadRow))
    return not isinstance(next(found, []), str)


def _texts(path, given):
    names = ("format", "encoding", "on_bad_text", "max_line")
    text = "text" if given["format"] == "lines" else given["text"] or "tokens"
    return iterate_rows(path, text=text, **{name: given[name] for name in names})


def _text(row):
    return row.text


def _words(row):
    return row.words


def _tag(tagger, sentences, batch_size):
    found = tagger.tag(sentences, batch_size)
    return [{"tokens": own, **tags} for own, tags in zip(sentences, found, strict=True)]


def _write(file, output, found):
    """Writes the prediction of a sentence: a JSON line, or a line per word and an empty line."""
    if output.endswith(".jsonl"):
        file.write(json.dumps(found, ensure_ascii=False) + "\n")
        return
    if "tokens" in found:
        pairs = zip(found["tokens"], found["tags"], strict=True)
    else:
        pairs = ((word["text"], word["tag"]) for word in found["words"])
    pairs = list(pairs)
    if any(sign in word for word, _ in pairs for sign in "\t\r\n"):
        raise UserError(
            "Words with tabs or line breaks require an --output that ends in .jsonl. "
            f"Received: {output}"
        )
    file.write("".join(f"{word}\t{tag}\n" for word, tag in pairs) + "\n")
