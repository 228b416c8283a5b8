"""report.html of tagging, and the baseline: the most frequent tag of each word."""

import collections

from keras_attn.counts import counted
from keras_attn.reports.page import cut, isolated, join, section, table, tag
from keras_attn.reports.run_report import NAME, about_the_run, write_page
from keras_attn.reports.sections import MAX_EXAMPLES, curves, figure, numbers
from keras_attn.tasks.finetuning.seed_statistics import metrics_among
from keras_attn.tasks.tagging.metrics import scores_by_type, tag_metrics
from keras_attn.tasks.tagging.schemes import RAW, entities
from keras_attn.training.records import read_records

BASELINE = "most frequent tag of each word"
MAX_CONFUSIONS = 20
CONTEXT = 6  # words on each side of an error


def tag_baseline(splits, scheme):
    """Returns the metrics of predicting the most frequent tag of each word in training.

    Words that are not in the training data have the most frequent tag of all.

    Args:
        splits: `Sentences` by split.
        scheme: Scheme of the tags.
    """
    counts, total = collections.defaultdict(collections.Counter), collections.Counter()
    for row in splits["train"].rows:
        for word, own in zip(row.words, row.tags, strict=True):
            counts[word][own] += 1
        total.update(row.tags)
    (frequent, _), *_ = total.most_common(1)
    best = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    rows = splits["validation"].rows
    predicted = [[best.get(word, frequent) for word in row.words] for row in rows]
    return tag_metrics([row.tags for row in rows], predicted, scheme)


def score_lines(results):
    """Yields a line per type for `finetune.evaluate`."""
    for kind, scores in results.get("types", {}).items():
        yield (
            f"{kind}: precision {scores['precision']:.3f} · recall {scores['recall']:.3f} · "
            f"f1 {scores['f1']:.3f} · {scores['count']:,}"
        )


def write_report(run, results, baseline, splits, predicted, scheme):
    """Writes the report of a finished run on the chief, and prints its path.

    Args:
        run: `Run`.
        results: As in results.json.
        baseline: Result of `tag_baseline`, on the chief.
        splits: `Sentences` by split.
        predicted: Tags of each validation sentence.
        scheme: Scheme of the tags.

    Raises:
        UserError: If it cannot be written.
    """
    if run.chief:
        rows, found = splits["validation"].rows, metrics_among(results)
        actual = [row.tags for row in rows]
        notes = []
        if run.config.eval.metric or run.config.eval.patience:
            notes = tag(
                "p",
                "The weights were selected on the validation split (eval.metric, eval.patience), "
                "so the metrics have a selection bias: run finetune.evaluate on other sentences.",
                class_="faint",
            )
        compared = table(
            "Scores and baseline",
            ["model", *baseline],
            [
                ["this model", *(figure(results[name]) for name in baseline)],
                [BASELINE, *(figure(value) for value in baseline.values())],
            ],
        )
        write_page(
            run.workdir,
            f"{counted(len(rows), 'validation sentence')} · "
            + counted(sum(map(len, actual)), "word"),
            section("Results", numbers(found), compared, notes),
            _types(scores_by_type(actual, predicted, scheme), scheme),
            _confusions(actual, predicted),
            curves(read_records(run.workdir.path), next(iter(found))),
            _errors(rows, predicted, scheme),
            about_the_run(
                run,
                results,
                {
                    "training sentences": f"{len(splits['train']):,}",
                    "validation sentences": f"{len(rows):,}",
                    "skipped sentences": f"{splits['train'].skipped:,}",
                },
            ),
        )
        run.say(run.workdir / NAME)
    run.barrier()  # the chief would report a worker that ends earlier as lost


def _types(scores, scheme):
    what = "tag" if scheme == RAW else "entity type"
    cells = [
        [
            isolated(kind),
            *(figure(found[name]) for name in ("precision", "recall", "f1")),
            f"{found['count']:,}",
        ]
        for kind, found in sorted(scores.items(), key=lambda item: -item[1]["count"])
    ]
    return section(
        "Tags" if scheme == RAW else "Entity types",
        table("Scores by type", [what, "precision", "recall", "F1", "validation"], cells),
    )


def _confusions(actual, predicted):
    """Section with the most frequent wrong tags."""
    counts = collections.Counter()
    for own, found in zip(actual, predicted, strict=True):
        counts.update(pair for pair in zip(own, found, strict=True) if pair[0] != pair[1])
    if not counts:
        return ""
    cells = [
        [isolated(label), isolated(prediction), f"{count:,}"]
        for (label, prediction), count in counts.most_common(MAX_CONFUSIONS)
    ]
    total = counted(counts.total(), "word has", "words have")
    return section(
        "Errors by tag",
        tag("p", f"{total} a wrong tag.", class_="faint"),
        table("Most frequent errors", ["label", "prediction", "words"], cells, text=(0, 1)),
    )


def _errors(rows, predicted, scheme):
    """Section with the sentences with the most errors."""
    wrong = [
        _wrong_words(row.tags, found, scheme) for row, found in zip(rows, predicted, strict=True)
    ]
    order = sorted((n for n, own in enumerate(wrong) if own), key=lambda n: -len(wrong[n]))
    if not order:
        return ""
    shown = order[:MAX_EXAMPLES]
    items = [
        tag(
            "li",
            tag("p", isolated(rows[n].where()), class_="meta"),
            tag("blockquote", _marked(rows[n], predicted[n], wrong[n]), dir="auto"),
        )
        for n in shown
    ]
    line = f"Sentences with errors: {len(order):,} of {len(rows):,}"
    line += f"; these are the {len(shown)} with the most." if len(shown) < len(order) else "."
    return section(
        "Sentences with the most errors",
        tag(
            "p",
            f"{line} Words with a wrong tag are colored, with the prediction and the label.",
            class_="faint",
        ),
        tag("ol", items, class_="rows"),
    )


def _wrong_words(labels, found, scheme):
    """Returns the numbers of the words with errors: all words of entities that are not correct."""
    if scheme == RAW:
        return {n for n, pair in enumerate(zip(labels, found, strict=True)) if pair[0] != pair[1]}
    different = {*entities(labels)} ^ {*entities(found)}
    return {number for _, first, last in different for number in range(first, last)}


def _marked(row, found, wrong):
    """Returns the words of a sentence around its errors, with the wrong tags."""
    near = {n + shift for n in wrong for shift in range(-CONTEXT, CONTEXT + 1)}
    parts, skipping = [], False
    for number, word in enumerate(row.words):
        if number not in near:
            parts.append("" if skipping else "… ")
            skipping = True
            continue
        skipping = False
        if number in wrong:
            labels = f"{found[number]}, labeled {row.tags[number]}"
            parts.append(
                join(tag("span", cut(word), title=labels, class_="wrong"), tag("sub", labels), " ")
            )
        else:
            parts.append(cut(word) + " ")
    return join(*parts)
