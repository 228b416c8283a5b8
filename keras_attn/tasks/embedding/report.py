"""report.html of embeddings, and the baseline: TF-IDF vectors."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.reports.page import cut, isolated, section, table, tag
from keras_attn.reports.run_report import NAME, about_the_run, write_page
from keras_attn.reports.sections import MAX_EXAMPLES, curves, figure, numbers
from keras_attn.tasks.embedding.metrics import (
    embedding_metrics,
    ranks,
    ranks_of_similarities,
    similarities,
)
from keras_attn.tasks.finetuning.correlations import pearson, spearman
from keras_attn.tasks.finetuning.ranking import rank_metrics
from keras_attn.tasks.finetuning.seed_statistics import metrics_among
from keras_attn.training.records import read_records

BASELINE = "TF-IDF of words and bigrams"
_CHUNK = 1024


def text_baseline(train, validation):
    """Returns the metrics of the cosine similarity of TF-IDF vectors on the validation pairs.

    Args:
        train, validation: `Groups`.

    Returns:
        Dict of metrics; None without scikit-learn, or without a word in the texts.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError:
        return None
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", sublinear_tf=True)
    try:
        vectorizer.fit([text for column in train.columns for text in column])
    except ValueError:  # no word
        return None
    first, second = (vectorizer.transform(column) for column in validation.columns[:2])
    if validation.scores is not None:
        found = np.asarray(first.multiply(second).sum(axis=1)).ravel()
        scores = validation.scores
        return {"spearman": spearman(scores, found), "pearson": pearson(scores, found)}
    chunks = (
        (first[start : start + _CHUNK] @ second.T).toarray()
        for start in range(0, first.shape[0], _CHUNK)
    )
    return rank_metrics(ranks_of_similarities(chunks, validation.columns[1]))


def write_report(run, results, baseline, splits, vectors):
    """Writes the report of a finished run on the chief, and prints its path.

    Args:
        run: `Run`.
        results: As in results.json.
        baseline: Result of `text_baseline`, on the chief.
        splits: `Groups` by split.
        vectors: Embeddings of the validation split `(N, …, E)`.

    Raises:
        UserError: If it cannot be written.
    """
    if run.chief:
        groups = splits["validation"]
        own = embedding_metrics(vectors, groups)
        cells = [["this model", *map(figure, own.values())]]
        if baseline:
            cells.append([BASELINE, *map(figure, baseline.values())])
        write_page(
            run.workdir,
            counted(len(groups), "validation pair"),
            section(
                "Results",
                numbers(metrics_among(results)),
                table("Metrics and baseline", ["model", *own], cells),
            ),
            curves(read_records(run.workdir.path), next(iter(own))),
            _errors(groups, vectors),
            about_the_run(
                run,
                results,
                {
                    "training rows": f"{len(splits['train']):,}",
                    "validation rows": f"{len(groups):,}",
                    "skipped rows": f"{splits['train'].skipped:,}",
                },
            ),
        )
        run.say(run.workdir / NAME)
    run.barrier()  # the chief would report a worker that ends earlier as lost


def _errors(groups, vectors):
    """Section with the pairs that are furthest from their score, or have the highest rank."""
    if groups.scores is None:
        places = ranks(vectors[:, 0], vectors[:, 1], groups.columns[1])
        worst = np.argsort(-places, kind="stable")[:MAX_EXAMPLES]
        lines = [f"rank {places[row]:,} of {len(groups):,}" for row in worst]
    else:
        found, scores = similarities(vectors), groups.scores
        order = [np.argsort(np.argsort(values, kind="stable")) for values in (found, scores)]
        worst = np.argsort(-np.abs(order[0] - order[1]), kind="stable")[:MAX_EXAMPLES]
        lines = [
            f"similarity {figure(float(found[row]))}, labeled {figure(float(scores[row]))}"
            for row in worst
        ]
    items = [
        tag(
            "li",
            tag("p", tag("span", line, class_="wrong"), class_="meta"),
            *(
                tag("blockquote", isolated(cut(column[row])), dir="auto")
                for column in groups.columns[:2]
            ),
        )
        for row, line in zip(worst, lines, strict=True)
    ]
    return section("Pairs with the largest errors", tag("ol", items, class_="rows"))
