"""Converts text to shards of token ids: in several processes, resumable, in bounded memory."""

import contextlib
import fnmatch
import os
import posixpath
import time
from collections import Counter

import numpy as np

from keras_attn.counts import counted
from keras_attn.data.processes import available_cores, in_threads
from keras_attn.data.shards.shard_files import (
    INDEX,
    are_entries,
    is_prepared,
    read_arrays,
    read_index,
    write_index,
)
from keras_attn.data.shards.shard_processes import write_tasks
from keras_attn.data.shards.shard_writer import task_file, write_task
from keras_attn.data.sources.files import file_sha256
from keras_attn.data.sources.streams import display_name
from keras_attn.data.sources.text_sources import plan_source, read_task
from keras_attn.errors import UserError, reason_of
from keras_attn.io import gfile
from keras_attn.io.json_files import read_if_complete, write_json
from keras_attn.io.locks import lock_file

PLAN = "plan.json"
LOCK = "prepare.lock"
# Job files of `beam.write_tasks`: remote jobs only continue while their file exists.
BEAM_JOBS = "beam-*.json"
_OUTPUTS = ("task-*.json", "shard-*.npz")
_UNFINISHED = [f"{name}.*.unfinished"
               for name in (INDEX, PLAN, *_OUTPUTS, BEAM_JOBS, "pairs-*.json")]  # fmt: skip
_PLAN_KEYS = {"vocabulary_sha256", "lowercase", "source"}  # keys of every index and plan
# Smaller texts are tokenized faster than additional processes start.
_BYTES_WORTH_PROCESSES = 20_000_000
# A vocabulary in the language of the text leaves a smaller fraction of unknown tokens.
_MAX_UNKNOWN_FRACTION = 0.05
# Maximum number of parts of a source that are sampled.
_MAX_SAMPLED_PARTS = 256


def prepare(
    source,
    tokenizer,
    folder,
    *,
    processes=None,
    run_tasks=None,
    log=print,
    **reading,
):
    """Tokenizes text into a folder of shards.

    Repeated calls return at once. After an interruption, a call resumes with the missing shards; if
    the text, the vocabulary or an option has changed, it starts from scratch. The shards depend
    neither on the number of processes nor on interruptions.

    Args:
        source: "docstrings"; `tfds:NAME[/CONFIG][:SPLIT]`; files as for `files.find_files`; or a
            prepared folder, whose index is returned if its vocabulary is the tokenizer's.
        tokenizer: See `keras_attn.text.tokenizer_types`.
        folder: Folder of the shards.
        processes: Number of processes; defaults to one per core, and to this process for small
            texts.
        run_tasks: Function of (plan, numbers, tokenizer, folder) that runs the tasks elsewhere,
            such as `beam.write_tasks`. None: the tasks run on this machine.
        log: Called with lines of text.
        **reading: `format`, `encoding`, `field`, `on_bad_text`, `max_line`, `split`,
            `tokens_per_shard`; see `text_sources.plan_source`.

    Returns:
        The index, a dictionary: `shards` (file, documents, sentences, tokens, sha256), `report`
        (documents, sentences, tokens, unknown_share, duplicate_documents, lines_skipped,
        characters, seconds, megabytes_per_second), `vocabulary_sha256`, `lowercase`, `source`.

    Raises:
        UserError: If the text is missing, empty or cannot be decoded or read, there is no space, or
            another process prepares text in the folder.
    """
    if isinstance(source, (str, os.PathLike)) and is_prepared(source):
        return _check_vocabulary(source, tokenizer)
    folder = os.fspath(folder)
    started = time.monotonic()
    plan = plan_source(source, verbatim=tokenizer.verbatim, **reading)
    plan |= {"vocabulary_sha256": tokenizer.sha256, "lowercase": tokenizer.lowercase}
    if _has_plan(folder, plan) and is_prepared(folder):
        return read_index(folder)
    with _exclusive(folder):
        if not _has_plan(folder, plan):
            _reset_folder(folder, plan)
        if plan.get("reason"):
            log(f"Reading text as {plan['format']}: {plan['reason']}.")
        tasks = _run_tasks(plan, tokenizer, folder, processes, run_tasks, log)
        if not any(task["shards"] for task in tasks):
            raise _no_word(source)
        index = _finish(folder, plan, tasks, started)
    log(report_line(index["report"]))
    if warning := unknown_warning(index["report"]["unknown_share"]):
        log(
            warning
            + (
                ""
                if plan.get("format") not in ("lines", "paragraphs")
                else "; to read records, set data.format=jsonl, csv, tsv or parquet (--format)"
            )
        )
    return index


def sample_texts(source, *, limit_bytes=64_000_000, **reading):
    """Yields sentences, or parts of texts, from all parts of a source, to train a vocabulary.

    Args:
        source: See `prepare`.
        limit_bytes: Approximate amount of text, in equal portions from each part of the source.
        **reading: `format`, `encoding`, `field`, `on_bad_text`, `max_line`, `split`, `verbatim`;
            see `text_sources.plan_source`.

    Raises:
        UserError: As `prepare`.
    """
    plan = plan_source(source, **reading, tokens_per_shard=1, most_tasks=_MAX_SAMPLED_PARTS)
    portion, empty = -(-limit_bytes // len(plan["tasks"])), True
    for number in range(len(plan["tasks"])):
        left = portion
        for document in read_task(plan, number, Counter()):
            yield from document
            empty = False
            left -= sum(map(len, document))
            if left <= 0:
                break
    if empty:
        raise _no_word(source)


def _no_word(source):
    return UserError(f"The text must contain at least one word. Received: {source}")


def report_line(report):
    """Formats the report of an index as one line of text."""
    return (
        f"Prepared {counted(report['documents'], 'document')}, "
        f"{counted(report['sentences'], 'sentence')}, "
        f"{counted(report['tokens'], 'token')} ({report['unknown_share']:.2%} [UNK]); "
        f"{counted(report['duplicate_documents'], 'duplicate document')}, "
        f"{counted(report['lines_skipped'], 'skipped line')}; "
        f"{report['seconds']:.1f} s, {report['megabytes_per_second']:.1f} MB/s."
    )


def unknown_warning(fraction, pretrained=False):
    """Returns a warning if many tokens of a text are [UNK], or None.

    Args:
        fraction: Fraction of unknown tokens.
        pretrained: Whether the vocabulary is that of a pretrained model.
    """
    if fraction < _MAX_UNKNOWN_FRACTION:
        return None
    return (
        f"warning: {fraction:.0%} of the tokens are unknown ([UNK]): check that the text is in "
        "a language of the vocabulary and in data.encoding (--encoding), or "
        + ("choose another pretrained model" if pretrained else "train a larger vocabulary")
    )


def _check_vocabulary(folder, tokenizer):
    index = read_index(folder)
    for name, ours in (("vocabulary_sha256", tokenizer.sha256), ("lowercase", tokenizer.lowercase)):
        if index[name] != ours:
            raise UserError(
                f"{folder} was prepared with another vocabulary: {name}={index[name]} instead of "
                f"{ours}. Prepare the text again with this vocabulary"
            )
    return index


def _has_plan(folder, plan):
    return read_if_complete(posixpath.join(folder, PLAN)) == plan


@contextlib.contextmanager
def _exclusive(folder):
    """Creates the folder and locks it, so that no other process prepares text in it."""
    path = posixpath.join(folder, LOCK)
    try:
        gfile.makedirs(folder)
        lock = lock_file(
            path, f"Only one process at a time may prepare text in a folder. Received: {folder}"
        )
    except OSError as error:
        raise _not_writable(folder, error) from error
    try:
        yield
    finally:
        if lock:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)  # before it is released: `lock_file` detects the removal
            lock.close()


def _not_writable(folder, error):
    return UserError(f"The output folder must be writable. Received: {folder} ({reason_of(error)})")


def _reset_folder(folder, plan):
    """Removes the files of another plan from the folder and writes the plan.

    The index is removed first, then task files before their shards, and the plan is replaced last.
    So after an interruption at any point, the remaining files are recognized, and no task counts as
    finished without its shards.
    """
    try:
        names = gfile.listdir(folder)
        _check_foreign_files(folder, names)
        for pattern in (BEAM_JOBS, INDEX, *_OUTPUTS, *_UNFINISHED):
            _remove(folder, fnmatch.filter(names, pattern))
    except OSError as error:
        raise _not_writable(folder, error) from error
    write_json(posixpath.join(folder, PLAN), plan)


def _check_foreign_files(folder, names):
    """Raises UserError if the folder contains foreign files with the names of prepared ones."""
    contents = {
        name: read_if_complete(posixpath.join(folder, name))
        for name in (INDEX, PLAN)
        if name in names
    }
    foreign = [n for n, content in contents.items()
               if not isinstance(content, dict) or not content.keys() >= _PLAN_KEYS]  # fmt: skip
    if not contents:
        foreign = [name for pattern in _OUTPUTS for name in fnmatch.filter(names, pattern)]
    if foreign:
        raise UserError(
            "The output folder must be empty or a prepared one. "
            f"Received: {folder}, where {foreign[0]} is not from pretrain.prepare"
        )


def _remove(folder, names):
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            gfile.remove(posixpath.join(folder, name))


def _run_tasks(plan, tokenizer, folder, processes, run_tasks, log):
    """Runs the tasks that are not finished yet; returns the results of all tasks in order."""
    names = [task_file(folder, number) for number in range(len(plan["tasks"]))]
    tasks = in_threads(_read_task, names)
    missing = [number for number, task in enumerate(tasks) if task is None]
    done = len(tasks) - len(missing)
    if done:
        log(f"Resuming: {done} of {counted(len(tasks), 'part')} prepared before.")
    cores = available_cores()
    if processes is None:
        processes = cores if plan["bytes"] > _BYTES_WORTH_PROCESSES else 1
    if run_tasks and missing:
        results = run_tasks(plan, missing, tokenizer, folder)
    elif processes > 1 and len(missing) > 1:
        results = write_tasks(plan, missing, tokenizer, folder, processes)
    else:
        results = (
            (number, write_task(plan, number, tokenizer, folder, threads=cores))
            for number in missing
        )
    last = time.monotonic()
    for number, task in results:
        tasks[number] = task
        done += 1
        if time.monotonic() - last > 10 and done < len(tasks):
            last = time.monotonic()
            log(f"Prepared {done} of {counted(len(tasks), 'part')}.")
    return tasks


def _read_task(path):
    """Reads the result of a task; None if it is not finished, or its file is damaged."""
    task = read_if_complete(path)
    valid = (
        isinstance(task, dict)
        and are_entries(task.get("shards"))
        and isinstance(task.get("counts"), dict)
        and all(type(n) is int for n in task["counts"].values())
    )
    return task if valid else None


def _finish(folder, plan, tasks, started):
    """Writes the index, and reads it back."""
    shards = [shard for task in tasks for shard in task["shards"]]
    files = plan["source"].get("files", [])
    hashes = in_threads(file_sha256, [file["file"] for file in files])
    for file, found in zip(files, hashes, strict=True):
        stat = gfile.stat(file["file"])
        if (stat.length, stat.mtime_nsec) != (file["bytes"], file["modified_ns"]):
            raise UserError(
                f"{file['file']} changed while it was being prepared. Prepare the text again"
            )
        file.update(file=display_name(file["file"]), sha256=found)
    index = {
        "vocabulary_sha256": plan["vocabulary_sha256"],
        "lowercase": plan["lowercase"],
        "source": {key: plan[key] for key in ("kind", "format", "source") if key in plan},
        "shards": shards,
        "report": _report(folder, shards, tasks, time.monotonic() - started),
    }
    names = gfile.listdir(folder)
    for pattern in (BEAM_JOBS, *_UNFINISHED):
        _remove(folder, fnmatch.filter(names, pattern))
    write_index(folder, index)
    return read_index(folder)


def _report(folder, shards, tasks, seconds):
    counts = sum((Counter(task["counts"]) for task in tasks), Counter())
    hashes = in_threads(
        lambda shard: read_arrays(
            posixpath.join(folder, shard["file"]), "document_hashes", sha256=shard["sha256"]
        )[0],
        shards,
    )
    distinct = len(np.unique(np.concatenate(hashes)))
    return {
        "documents": counts["documents"],
        "sentences": counts["sentences"],
        "tokens": counts["tokens"],
        "unknown_share": counts["unknown"] / counts["tokens"],
        "duplicate_documents": counts["documents"] - distinct,
        "lines_skipped": counts["lines_skipped"],
        "characters": counts["characters"],
        "seconds": round(seconds, 3),
        "megabytes_per_second": round(counts["characters"] / 1e6 / max(seconds, 1e-9), 3),
    }
