"""The line about the baseline at the end of a run."""


def report_baseline(run, results, name, baseline, advice):
    """Prints the metric of the model and of the baseline, and warns if the model is not better.

    Args:
        run: `Run`.
        results: As in results.json.
        name: Name of the baseline.
        baseline: Dict of its metrics, the one to compare first.
        advice: Sentence for a model that is not better.
    """
    metric = next(iter(baseline))
    run.say(f"{metric} {results[metric]:.3f} · {name} {baseline[metric]:.3f}")
    if results[metric] <= baseline[metric] and results[metric] < 1:
        run.say(f"warning: the model is not better than the baseline. {advice}")
