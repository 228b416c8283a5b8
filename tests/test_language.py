"""The project writes in the standard terms of the field: docs/glossary.md."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
# What earlier versions wrote, and what stands for it.
BANNED = {
    # Not the method of files, nor the paper "Show, Attend and Tell".
    r"(?<!\.)(?<!def )(?<!and )\btell(s|ing)?\b|\btold\b": "predict, report, state, distinguish",
    r"\bguess(es|ed|ing)?\b": "prediction, predicted",
    r"\bin vain\b": "unused",
    r"\blikeliest\b": "most likely, top k",
    r"\bmade anew\b|\bstarts? anew\b": "newly initialized",
    r"\bstarts? at random\b|\bat random they start\b": "randomly initialized",
    r"\bgo(es)? on (from|with)\b|\bgoing on\b|\bwent on\b": "resume, continue",
    r"\bend mark\b|\bmark of (the|its) end\b": "end-of-sequence token",
    r"\btoken tables?\b|\bposition tables?\b(?! of)": "embedding matrix, position embeddings",
    r"\bspread of (the )?first weights\b": "initializer standard deviation",
    r"\bshare of values\b": "dropout rate",
    r"\bnorm before each part\b": "pre-norm",
    r"\blines? to beat\b|\bto beat\b": "baseline",
    r"\bheld out of it\b": "held-out set",
    r"\bflatters?\b": "selection bias, favors",
    r"\bthe same bits\b|\bbit by bit\b": "bitwise identical",
    r"\btimes as fast\b": "speedup",
    r"\bhow many a second\b|\ba second\b(?= (row|example|token|sequence)s)": "throughput",
    r"\b(refused|asked|given|needed|taken) are\b": "a sentence with its subject first",
    r"\bis needed\. Received\b": "requires, is required",
    r"\bwithout:": "if unset",
    r"\bword pieces\b(?!_)|\bpieces of it\b": "WordPiece tokens, subwords",
    r"\btoken of the whole text\b": "[CLS], special token",
    r"\b(without a|(that have|with) no) pieces?\b": "padded vocabulary",
    r"\bthe usual\b|\bwhat is said\b": "default, option",
    r"\bfolder of a run\b": "workdir",
    r"\bwhole files\b": "atomic write",
    r"\brows of a step\b": "batch, micro-batch",
    r"\bnumbers? by which\b": "model selection, selection bias",
    r"\b(that|which) train for seconds\b": "short training runs, integration tests",
}
# Files about the words themselves.
EXEMPT = {"docs/glossary.md", "docs/errata.md", "tests/test_language.py"}
FOLDERS = ("keras_attn", "pretrain", "finetune", "configs", "examples", "benchmarks", "notebooks")


def _files():
    yield from (
        ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile")
    )
    for folder in (*FOLDERS, "docs", "tests"):
        for suffix in ("py", "md", "ipynb"):
            yield from sorted((ROOT / folder).rglob(f"*.{suffix}"))


def test_no_file_uses_words_that_have_a_standard_term():
    found = []
    for path in _files():
        name = path.relative_to(ROOT).as_posix()
        if name in EXEMPT:
            continue
        text = path.read_text(encoding="utf-8")
        # The name of a test is a sentence.
        text = re.sub(r"\btest_\w+", lambda name: name[0].replace("_", " "), text)
        for pattern, better in BANNED.items():
            for match in re.finditer(pattern, text, re.I):
                line = text[: match.start()].count("\n") + 1
                found.append(f"{name}:{line}: {match[0]!r}; write: {better}")
    assert not found, "\n".join(found)
