"""Plans how to read a text source: independent tasks that any process can execute."""

import json
from dataclasses import astuple, replace

from keras_attn.data.processes import in_threads
from keras_attn.data.sources import docstrings, tfds_text
from keras_attn.data.sources.documents import (
    FORMATS,
    Part,
    detect_format,
    join_with_spaces,
    read_documents,
    record_format,
    split_files,
)
from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.text_lines import has_byte_lines, is_gzip
from keras_attn.errors import UserError, check_choice
from keras_attn.io import gfile

_BYTES_PER_TOKEN = 4.3
_GZIP_RATIO = 2.6


def plan_source(
    source,
    *,
    format="auto",
    encoding="utf-8",
    field="text",
    on_bad_text="error",
    max_line=None,
    split="train",
    verbatim=False,
    tokens_per_shard=4_000_000,
    most_tasks=100_000,
):
    """Looks up a source and plans how to read it.

    Args:
        source: "docstrings"; `tfds:NAME[/CONFIG][:SPLIT]`; or files as for `files.find_files`.
        format: See `documents.read_documents`. "auto" uses the names of files with records, and
            detects the format of others from their text; with `verbatim` it is never "lines".
        encoding: See `documents.read_documents`.
        field: See `documents.read_documents`.
        on_bad_text: See `documents.read_documents`.
        max_line: See `documents.read_documents`.
        split: "train" or "validation" for docstrings; the default split for TFDS.
        verbatim: See `documents.read_documents`.
        tokens_per_shard: Approximate number of tokens per shard; always less than twice as many.
        most_tasks: Maximum number of tasks.

    Returns:
        A JSON-serializable dictionary: `kind`, `source` (what it is and a fingerprint: files with
        sizes and times), `tasks`, `bytes` (approximate, unzipped), and options. Equal plans yield
        equal shards.

    Raises:
        UserError: If the source is missing or an option is invalid.
    """
    check_choice("format", format, FORMATS)
    check_choice("on_bad_text", on_bad_text, ("error", "skip"))
    if tokens_per_shard < 1:
        raise UserError(f"tokens_per_shard must be positive. Received: {tokens_per_shard}")
    has_byte_lines(encoding)  # raises for an unknown encoding
    options = {
        "encoding": encoding,
        "field": field,
        "on_bad_text": on_bad_text,
        "tokens_per_shard": tokens_per_shard,
        **({"verbatim": True} if verbatim else {}),
        **({"max_line": max_line} if max_line else {}),
    }

    def tasks_for(size):
        return max(1, min(most_tasks, round(size / _BYTES_PER_TOKEN / tokens_per_shard)))

    if source == "docstrings":
        check_choice("split", split, docstrings.SPLITS)
        plan = {
            "kind": "docstrings",
            "split": split,
            "source": {"docstrings": split, "fingerprint": docstrings.fingerprint()},
            "tasks": [0],
            "bytes": 0,
        }
    elif isinstance(source, str) and source.startswith("tfds:"):
        plan = _plan_tfds(source, split, field, tasks_for)
    else:
        plan = _plan_files(source, format, encoding, verbatim, tasks_for)
    return json.loads(json.dumps({**options, **plan}))


def read_task(plan, number, counts):
    """Yields the documents of one task of a plan as lists of str; see `documents.read_documents`.

    Args:
        plan: As returned by `plan_source`.
        number: Index of the task.
        counts: A Counter whose `lines_skipped` is incremented.
    """
    task, verbatim = plan["tasks"][number], plan.get("verbatim", False)
    if plan["kind"] == "docstrings":
        documents = docstrings.docstring_documents(plan["split"])
        yield from map(join_with_spaces, documents) if verbatim else documents
    elif plan["kind"] == "tfds":
        yield from tfds_text.read_documents(
            plan["name"], plan["split"], plan["field"], *task, verbatim
        )
    else:
        options = {key: plan[key] for key in ("encoding", "field", "on_bad_text")}
        for part in (Part(*values) for values in task):
            yield from read_documents(
                part,
                part.format or plan["format"],
                counts=counts,
                verbatim=verbatim,
                max_line=plan.get("max_line"),
                **options,
            )


def _plan_files(source, format, encoding, verbatim, tasks_for):
    files = find_files(source)
    stats = in_threads(gfile.stat, files)
    sizes = [stat.length for stat in stats]
    own, reason = {}, None  # formats of files that differ from most
    if format == "auto":
        format, reason = detect_format(files, encoding)
        own = {path: record_format(path) for path in files if record_format(path) != format}
        if verbatim and format == "lines":  # line breaks are part of raw text
            format, reason = "paragraphs", "line ends are text, too"
    parts = [
        replace(part, format=own.get(part.path))
        for part in split_files(files, sizes, encoding, [own.get(path) or format for path in files])
    ]
    size = sum(
        size * (_GZIP_RATIO if is_gzip(path) else 1)
        for path, size in zip(files, sizes, strict=True)
    )
    # Task i reads parts i, i + number, …, so that every shard mixes many files.
    number = min(len(parts), tasks_for(size))
    return {
        "kind": "files",
        "format": format,
        "reason": reason,
        "source": {
            "files": [
                {"file": path, "bytes": stat.length, "modified_ns": stat.mtime_nsec}
                for path, stat in zip(files, stats, strict=True)
            ]
        },
        "tasks": [[_part_tuple(part) for part in parts[start::number]] for start in range(number)],
        "bytes": int(size),
    }


def _part_tuple(part):
    """Converts a part to a tuple; without a format of its own, as in older versions."""
    return astuple(part)[: 4 if part.format else 3]


def _plan_tfds(source, split, field, tasks_for):
    name, split, examples, size = tfds_text.look_up(source, split, field)
    # A slice of a split, such as train[:10%], is read from its start, so by a single task.
    number = 1 if "[" in split else min(examples, tasks_for(size))
    bounds = [examples * n // number for n in range(number + 1)]
    return {
        "kind": "tfds",
        "name": name,
        "split": split,
        "source": {"tfds": name, "split": split, "examples": examples, "bytes": size},
        "tasks": list(zip(bounds, bounds[1:], strict=False)),
        "bytes": size,
    }
