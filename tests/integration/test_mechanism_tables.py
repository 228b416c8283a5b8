"""The tables of mechanisms can be computed from small files in a few steps."""

import gzip
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.support.started_commands import ROOT

WORDS = [f"w{chr(97 + i)}{chr(97 + j)}" for i in range(4) for j in range(10)]


def _lines(count):
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, random.integers(6, 12))) for _ in range(count)]


def _poolings(folder):
    for name, count in (("a", 200), ("b", 40)):
        (folder / name).write_text(
            "".join(f"{'AB'[n % 2]}:x {line}\n" for n, line in enumerate(_lines(count)))
        )
    return [f"--sets=X={folder / 'a'},{folder / 'b'};Y={folder / 'a'}", "--epochs=2"]


def _documents(folder):
    for author in ("Ada", "Bob"):
        for book in ("one", "two"):
            text = "\n".join(f"{line}." for line in _lines(130))
            with gzip.open(folder / f"{author}_{book}_1800.txt.gz", "wt") as file:
                file.write(text)
    return [f"--novels={folder}/*.txt.gz", "--steps=2"]


def _pairs(folder):
    for name, count in (("a", 80), ("b", 20)):
        rows = zip(_lines(count), reversed(_lines(count)), strict=True)
        (folder / f"{name}.tsv").write_text(
            "index\tsentence1\tsentence2\tlabel\n"
            + "".join(
                f"{n}\t{first}\t{second}\t{'not_' * (n % 2)}entailment\n"
                for n, (first, second) in enumerate(rows)
            )
        )
    return [f"--train={folder / 'a.tsv'}", f"--test={folder / 'b.tsv'}", "--steps=2"]


def _translation(folder):
    for name, count in (("a", 90), ("b", 30)):
        for end in ("en", "de"):
            (folder / f"{name}.{end}").write_text("\n".join(_lines(count)) + "\n")
    return [
        f"--train={folder / 'a'}",
        f"--test={folder / 'b'}",
        "--steps=2",
        "--captions=3",
        "--units=12",
    ]


SCRIPTS = {  # functions from a folder to arguments, and the rows to compute
    "documents": (_documents, ("flat, mean", "hierarchical, attention")),
    "interactions": (lambda folder: ["--steps=2"], ("size 5", "size 4, attention")),
    "pairs": (_pairs, ("ABCNN-1", "ABCNN-3")),
    "poolings": (_poolings, ("X, mean", "Y, attention")),
    "sorting": (lambda folder: ["--steps=2"], ("repeats forbidden",)),
    "summaries": (lambda folder: ["--steps=2", "--words=500"], ("no copying", "copying, coverage")),
    "translation": (_translation, ("local, predictive", "hard")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_table_is_complete(name, tmp_path):
    make, kinds = SCRIPTS[name]
    command = [
        sys.executable,
        "-m",
        f"benchmarks.mechanisms.{name}",
        f"--output={tmp_path / 'found'}",
        "--seeds=2",
        *make(tmp_path),
        *(f"--kinds={kind}" for kind in kinds),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.findall(r"^\| (\w.*?) \|.*± .*\|$", done.stdout, re.M) == list(kinds)
    assert len(list((tmp_path / "found").glob("*.json"))) == 2 * len(kinds)
