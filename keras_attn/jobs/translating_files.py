"""Translating files and streams, line by line."""

import itertools
import json
import sys

from keras_attn.data.table_formats import Lines, is_text
from keras_attn.errors import UserError
from keras_attn.jobs.outputs import opened
from keras_attn.jobs.translators import SavedTranslator, Translator

CHUNK = 1024  # lines held in memory


def translate_file(workdir, source, output="-", *, beam=4, nbest=None, length_penalty=0.6,
                   with_scores=False, alignments=False, on_bad_text="error", batch_size=32):
    """Writes a line for each line of a text file, in constant memory.

    Args:
        workdir: Of a translator.
        source: Text file; `-` for standard input.
        output: File that ends in .txt or .jsonl; `-` for standard output.
        beam, length_penalty, batch_size: See `Translator.translate`.
        nbest: Translations of each line; None: the best.
        with_scores, alignments: Whether to tell them.
        on_bad_text: "error", or "skip" to leave the translation of a line empty that is no text
            or too long, and count it.

    Raises:
        UserError: For such a line, with its number.
    """
    as_json = bool(nbest or with_scores or alignments)
    saved = SavedTranslator(workdir)  # before the output is opened
    with opened(output, (".txt", ".jsonl")) as file:
        translator = Translator.load(saved)
        lines, count, skipped = _lines(source), 0, 0
        size = batch_size if source == "-" else CHUNK  # whoever writes may wait for an answer
        while chunk := list(itertools.islice(lines, size)):
            texts = []
            for number, line in enumerate(chunk, count + 1):
                fault = _fault(translator, line)
                if fault and on_bad_text == "error":
                    raise UserError(f"{fault}; --on_bad_text=skip leaves its translation empty. "
                                    f"Received: line {number} of {source}")
                skipped += bool(fault)
                texts.append("" if fault else line)
            found = translator.translate(texts, beam, nbest or 1, length_penalty, batch_size,
                                         alignments)
            for one in found:
                file.write((_json(one, with_scores, alignments) if as_json else one[0]["text"])
                           + "\n")
            file.flush()
            count += len(chunk)
    print(f"{count:,} lines translated, {skipped:,} left empty", file=sys.stderr)


def _lines(source):
    if source != "-":
        yield from (line.rstrip("\r\n") for line in Lines(source, "utf-8"))
        return
    for number, line in enumerate(sys.stdin.buffer):
        encoding = "utf-8" if number else "utf-8-sig"
        yield line.decode(encoding, "keras_attn.undecodable").rstrip("\r\n")


def _fault(translator, line):
    """What a line should have been, or None."""
    if not is_text(line):
        return "Text in utf-8 is needed"
    if not translator.fits(line):
        return f"A line of at most {translator.length - 1} tokens is needed"
    return None


def _json(hypotheses, with_scores, alignments):
    found = []
    for one in hypotheses:
        told = {"text": one["text"]}
        if with_scores:
            told |= {"score": one["score"], "log_probability": one["log_probability"]}
        if alignments:
            told |= {"source_tokens": one["source_tokens"], "tokens": one["tokens"],
                     "alignments": one["attention"].argmax(axis=1).tolist()
                     if len(one["tokens"]) else []}
        found.append(told)
    return json.dumps(found, ensure_ascii=False)
