"""Translation of files and streams, line by line."""

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
from keras_attn.inference.attention_files import write_attention_page
from keras_attn.inference.loading import task_of_workdir
from keras_attn.inference.outputs import opened
from keras_attn.registry import TASKS
from keras_attn.tasks.translation.translator import Translator

CHUNK = 1024  # lines in memory


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
        workdir: Working directory of a translation model.
        source: Text file; `-` for standard input. Lines of standard input and of pipes are
            translated when they arrive. Or a list of strings, instead of lines.
        output: .txt or .jsonl file; `-` for standard output.
        beam, length_penalty, batch_size: See `Translator.translate`.
        nbest: Number of translations per line; None: the best one.
        with_scores, alignments: Whether to output scores and alignments.
        on_bad_text: How to handle lines that are not valid text or too long: "error", or "skip",
            which writes an empty translation and counts them.
        precision: See `keras_attn.load`.
        max_line: Maximum size of a line in bytes; None: as in training.

    Raises:
        UserError: If a line is not valid text or too long; contains its number.
    """
    trained = read_ready(workdir)  # before the output is opened
    _check_task(trained.task, workdir, f"a model of {trained.kind}")
    files = () if isinstance(source, list) else (source,)
    with opened(output, (".txt", ".jsonl"), inputs=files, workdir=workdir) as file:
        translator = TASKS[trained.task].load(trained, precision)
        max_line = max_line or trained.config["data"].get("max_line") or MAX_LINE
        del trained  # frees the memory of its weights
        translator.choose(beam, nbest, length_penalty, batch_size)  # checks before input arrives
        as_json = bool(nbest or with_scores or alignments)
        count = skipped = cut = 0
        name = source if files else "--text"
        for chunk in _chunks(source, max_line):
            texts = ["" if _unreadable(line) else line for line in chunk]
            rows = translator.encode(texts)
            for number, (line, row) in enumerate(zip(chunk, rows, strict=True)):
                fault = _fault(translator, line, row)
                if fault and on_bad_text == "error":
                    raise UserError(
                        f"{fault}. Set --on_bad_text=skip to write an empty translation instead. "
                        f"Received: line {count + number + 1} of {name}"
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
        f"{counted(count, 'line')} translated, {skipped:,} skipped"
        + (f", {cut:,} truncated at the maximum length" if cut else ""),
        file=sys.stderr,
    )


def write_alignment_page(workdir, output, texts, **options):
    """Writes the page of `Translator.attention_page` for one text.

    Args:
        workdir: Working directory of a translation model.
        output: .html file, or `-` for standard output.
        texts: List of one string.
        **options: `precision`, and other arguments of `Translator.attention_page`.
    """
    task = task_of_workdir(workdir)
    if task:
        _check_task(task.name, workdir, f"a model for {task.name}")
    write_attention_page(workdir, output, texts, **options)


def _check_task(task, workdir, found):
    if task != Translator.task:
        raise UserError(f"--workdir must contain a translation model. Received: {workdir}, {found}")


def _chunks(source, max_line):
    """Yields lists of lines, each a string or a `BadRow`."""
    if isinstance(source, list):
        yield source
        return
    if is_stream(source):
        yield from _stream_chunks(open_stream(source), max_line)
        return
    lines = (
        line if isinstance(line, BadRow) else without_end(line)
        for line in Lines(source, "utf-8", max_line)
    )
    while chunk := list(itertools.islice(lines, CHUNK)):
        yield chunk


def _stream_chunks(stream, max_line):
    """Yields the complete lines when they arrive, because their writer may wait for the result."""
    encoding, blocks, size = "utf-8-sig", [], 0

    def line():
        if size > max_line:
            return too_long(max_line)
        return without_end(b"".join(blocks).decode(encoding, UNDECODABLE))

    while block := stream.read1(2**16):
        *ends, start = block.split(b"\n")
        lines = []
        for end in ends:
            blocks, size = [*blocks, end], size + len(end)
            lines.append(line())
            encoding, blocks, size = "utf-8", [], 0
        size += len(start)
        blocks = [*blocks, start] if size <= max_line else []
        if lines:
            yield lines
    if size:
        last = line()
        # In a text without line feeds, carriage returns end the lines.
        has_line_feeds = encoding == "utf-8"
        yield [last] if has_line_feeds or isinstance(last, BadRow) else last.split("\r")


def _fault(translator, line, row):
    """Returns the requirement that a line violates, or None."""
    if unreadable := _unreadable(line):
        return unreadable
    if not translator.fits(row):
        return f"A line must have at most {translator.length - 1} tokens"
    return None


def _unreadable(line):
    if isinstance(line, BadRow):
        return line.requirement
    return None if is_text(line) else "A line must be valid UTF-8"


def _json(hypotheses, with_scores, alignments):
    found = []
    for one in hypotheses:
        entry = {"text": one["text"]}
        if with_scores:
            entry |= {name: one[name] for name in ("score", "log_probability", "finished")}
        if alignments:
            entry |= {
                "source_tokens": one["source_tokens"],
                "tokens": one["tokens"],
                "alignments": one["attention"].argmax(axis=1).tolist()
                if len(one["tokens"])
                else [],
            }
        found.append(entry)
    return json.dumps(found, ensure_ascii=False)
