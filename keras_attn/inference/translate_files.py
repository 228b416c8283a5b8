"""Translating files and streams, line by line."""

import itertools
import json
import sys

from keras_attn.convert import read_ready
from keras_attn.counts import counted
from keras_attn.data.sources.streams import is_stream, open_stream
from keras_attn.data.sources.table_formats import (
    UNDECODABLE,
    BadRow,
    Lines,
    is_text,
    too_long,
    without_end,
)
from keras_attn.data.sources.text_lines import MAX_LINE
from keras_attn.errors import UserError
from keras_attn.inference.outputs import opened
from keras_attn.registry import TASKS
from keras_attn.tasks.translation.translator import Translator

CHUNK = 1024  # lines held in memory


def translate_file(
    workdir,
    source,
    output="-",
    *,
    beam=None,
    nbest=None,
    length_penalty=None,
    with_scores=False,
    alignments=False,
    on_bad_text="error",
    batch_size=32,
    precision="float32",
    max_line=None,
):
    """Writes a line for each line of a text file, in constant memory.

    Args:
        workdir: Of a translator.
        source: Text file; `-` for standard input. Lines of standard input and of pipes are
            translated as they come.
        output: File that ends in .txt or .jsonl; `-` for standard output.
        beam, length_penalty, batch_size: See `Translator.translate`.
        nbest: Translations of each line; None: the best.
        with_scores, alignments: Whether to tell them.
        on_bad_text: "error", or "skip" to leave the translation of a line empty that is no text
            or too long, and count it.
        precision: See `keras_attn.load`.
        max_line: Bytes of the longest line; None: as in training.

    Raises:
        UserError: For such a line, with its number.
    """
    trained = read_ready(workdir)  # before the output is opened
    if trained.task != Translator.task:
        raise UserError(
            f"A workdir of a translator is needed. Received: {workdir}, of {trained.kind}"
        )
    with opened(output, (".txt", ".jsonl"), inputs=(source,), workdir=workdir) as file:
        translator = TASKS[trained.task].load(trained, precision)
        max_line = max_line or trained.config["data"].get("max_line") or MAX_LINE
        del trained  # its weights are in the model now
        translator.choose(beam, nbest, length_penalty, batch_size)  # before a line is waited for
        as_json = bool(nbest or with_scores or alignments)
        count = skipped = cut = 0
        for chunk in _chunks(source, max_line):
            texts = ["" if _unreadable(line) else line for line in chunk]
            rows = translator.encode(texts)
            for number, (line, row) in enumerate(zip(chunk, rows, strict=True)):
                fault = _fault(translator, line, row)
                if fault and on_bad_text == "error":
                    raise UserError(
                        f"{fault}; --on_bad_text=skip leaves its translation empty. "
                        f"Received: line {count + number + 1} of {source}"
                    )
                skipped += bool(fault)
                rows[number] = row[:0] if fault else row
            for found in translator.translate_ids(
                rows, beam, nbest, length_penalty, batch_size, alignments
            ):
                cut += not found[0]["finished"]
                file.write(
                    (_json(found, with_scores, alignments) if as_json else found[0]["text"]) + "\n"
                )
            file.flush()
            count += len(chunk)
    print(
        f"{counted(count, 'line')} translated, {skipped:,} left empty"
        + (f", {cut:,} cut" if cut else ""),
        file=sys.stderr,
    )


def _chunks(source, max_line):
    """Lists of lines, each a string or a `BadRow`."""
    if is_stream(source):
        yield from _chunks_as_they_come(open_stream(source), max_line)
        return
    lines = (
        line if isinstance(line, BadRow) else without_end(line)
        for line in Lines(source, "utf-8", max_line)
    )
    while chunk := list(itertools.islice(lines, CHUNK)):
        yield chunk


def _chunks_as_they_come(stream, max_line):
    """Lists of the whole lines that are there: whoever writes one may wait for its answer."""
    encoding, parts, size = "utf-8-sig", [], 0

    def line():
        if size > max_line:
            return too_long(max_line)
        return without_end(b"".join(parts).decode(encoding, UNDECODABLE))

    while block := stream.read1(2**16):
        *ends, begun = block.split(b"\n")
        lines = []
        for end in ends:
            parts, size = [*parts, end], size + len(end)
            lines.append(line())
            encoding, parts, size = "utf-8", [], 0
        size += len(begun)
        parts = [*parts, begun] if size <= max_line else []
        if lines:
            yield lines
    if size:
        last = line()
        # Carriage returns end the lines of a text without line feeds.
        alone = encoding == "utf-8" or isinstance(last, BadRow)
        yield [last] if alone else last.split("\r")


def _fault(translator, line, row):
    """What a line should have been, or None."""
    if unreadable := _unreadable(line):
        return unreadable
    if not translator.fits(row):
        return f"A line of at most {translator.length - 1} tokens is needed"
    return None


def _unreadable(line):
    if isinstance(line, BadRow):
        return line.requirement
    return None if is_text(line) else "Text in utf-8 is needed"


def _json(hypotheses, with_scores, alignments):
    found = []
    for one in hypotheses:
        told = {"text": one["text"]}
        if with_scores:
            told |= {name: one[name] for name in ("score", "log_probability", "finished")}
        if alignments:
            told |= {
                "source_tokens": one["source_tokens"],
                "tokens": one["tokens"],
                "alignments": one["attention"].argmax(axis=1).tolist()
                if len(one["tokens"])
                else [],
            }
        found.append(told)
    return json.dumps(found, ensure_ascii=False)
