"""Parallel text: aligned files, tables and TFDS translation sets."""

import collections
import dataclasses
import itertools

from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.streams import check_streams_differ
from keras_attn.data.sources.table_formats import (
    BadRow,
    Lines,
    format_from_name,
    is_text,
    undecodable,
    without_end,
)
from keras_attn.data.sources.tables import describe_location, iterate_rows
from keras_attn.data.sources.text_lines import SKIP_ADVICE
from keras_attn.errors import UserError


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Sentences and their translations.

    Attributes:
        sources, targets: Strings.
        places: (file, line) of both sides of each pair.
        skipped: Number of skipped pairs by reason.
        files: Names of the files.
    """

    sources: list[str]
    targets: list[str]
    places: list[tuple]
    skipped: dict
    files: tuple

    def __len__(self):
        return len(self.sources)

    def take(self, rows):
        """Returns the pairs with the given numbers."""
        return dataclasses.replace(
            self,
            **{
                name: [getattr(self, name)[row] for row in rows]
                for name in ("sources", "targets", "places")
            },
        )

    def pairs(self):
        """Returns an iterator over the pairs."""
        return zip(self.sources, self.targets, strict=True)

    def where(self, row, side=0):
        """Returns the location of the source (0) or target (1) of a pair for messages."""
        return describe_location(*self.places[row][side])


def read_parallel(
    source,
    target=None,
    *,
    columns=("source", "target"),
    format=None,
    header=None,
    encoding="utf-8",
    on_bad_text="error",
    split="train",
    max_line=None,
):
    """Reads parallel text into memory.

    Args:
        source: With `target` a file with one sentence per line, or a glob; without `target` a
            table or `tfds:NAME`.
        target: The same number of files with the translations, line by line.
        columns: Source and target column of a table; for TFDS the languages.
        format, header, encoding, split, max_line: See `iterate_rows`.
        on_bad_text: "error", or "skip" to skip and count lines that cannot be decoded or have an
            empty side.

    Returns:
        `ParallelText`.

    Raises:
        UserError: If the numbers of files or lines differ, a side is empty, a line cannot be
            decoded, there is no sentence, or both sides are the same stream.
    """
    skipped = collections.Counter()
    tfds = source.startswith("tfds:")
    table = tfds or (format or format_from_name(source)) not in (None, "lines")
    if target is None and not table:
        raise UserError(
            "A source with one sentence per line requires a target file with the translations. "
            f"Received: {source!r}, target=None"
        )
    if target is not None and tfds:
        raise UserError(
            "A TFDS set contains both sides. Leave target out. "
            f"Received: {source!r}, target={target!r}"
        )
    if target is None:
        rows = iterate_rows(
            source,
            text=columns[0],
            text_pair=columns[1],
            format=format,
            header=header,
            encoding=encoding,
            on_bad_text=on_bad_text,
            split=split,
            max_line=max_line,
        )
        found = ((row.text, row.text_pair, *2 * [(row.file, row.line)]) for row in rows)
    else:
        check_streams_differ({"source": source, "target": target})
        rows, names = None, [find_files(source), find_files(target)]
        found = _aligned(*names, encoding, on_bad_text, skipped, max_line)
    sources, targets, places = [], [], []
    for text, translation, *where in found:
        if text.strip() and translation.strip():
            sources.append(text)
            targets.append(translation)
            places.append(where)
            continue
        side = 1 if text.strip() else 0
        if on_bad_text == "error":
            raise UserError(
                f"Both sides must have text. {SKIP_ADVICE} other pairs. "
                f"Received: no {('source', 'target')[side]} at {describe_location(*where[side])}"
            )
        skipped["empty"] += 1
    if not sources:
        raise UserError(f"There must be at least one sentence pair. Received: {source}")
    skipped.update(rows.skipped if rows else {})
    files = tuple(dict.fromkeys(file for (file, _), _ in places))
    if target is not None:
        files = tuple(itertools.chain(*names))
    return ParallelText(sources, targets, places, dict(skipped), files)


def _aligned(sources, targets, encoding, on_bad_text, skipped, max_line):
    """Yields pairs of lines of aligned files."""
    if len(sources) != len(targets):
        raise UserError(
            "Source and target must have the same number of files. "
            f"Received: {len(sources)} and {len(targets)}"
        )
    for names in zip(sources, targets, strict=True):
        try:
            lines = [Lines(name, encoding, max_line) for name in names]
        except LookupError:
            raise UserError(f"encoding must be known to Python. Received: {encoding!r}") from None
        for number, pair in enumerate(itertools.zip_longest(*lines), 1):
            if None in pair:
                counts = [_count(name, encoding) for name in names]
                raise UserError(
                    "Source and target must have the same number of lines. Received: "
                    + ", ".join(
                        f"{name} has {count:,}" for name, count in zip(names, counts, strict=True)
                    )
                    + f"; line {number:,} has no counterpart"
                )
            faults = [
                (name, fault)
                for name, line in zip(names, pair, strict=True)
                if (fault := _fault(line, encoding))
            ]
            if faults:
                name, fault = faults[0]
                if on_bad_text == "error":
                    raise UserError(
                        f"{fault.requirement}. {SKIP_ADVICE} such lines. "
                        f"Received: {describe_location(name, number)}"
                    )
                skipped[fault.reason] += 1
                continue
            yield *map(without_end, pair), *((name, number) for name in names)


def _fault(line, encoding):
    """Returns the `BadRow` of a line that cannot be read, else None."""
    if isinstance(line, BadRow):
        return line
    return None if is_text(line) else undecodable(encoding)


def _count(name, encoding):
    return sum(1 for _ in Lines(name, encoding))
