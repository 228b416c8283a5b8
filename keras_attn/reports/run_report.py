"""The report of a run: report.html."""

import posixpath

from keras_attn.defaults import default_config
from keras_attn.io.atomic_write import atomic_write
from keras_attn.reports.page import page, tag
from keras_attn.reports.sections import run_facts
from keras_attn.saved_config import flatten

NAME = "report.html"


def write_page(workdir, subtitle, *sections):
    """Writes the report of a workdir."""
    title = posixpath.basename(workdir.path) or workdir.path
    head = tag("header", tag("h1", title), tag("p", subtitle, class_="faint"))
    # The workdir is locked, so the temporary file of a killed run can be overwritten.
    atomic_write(workdir / NAME, page(title, head, *sections), unfinished=workdir / f"{NAME}.tmp")


def about_the_run(run, results, counts):
    """Returns the section with the changed fields and the facts of a run.

    Args:
        run: `Run`.
        results: Entries of results.json.
        counts: Dict of names and formatted counts of the data.
    """
    # The settings of the tokenizer are not config fields; they are from the pretrained model.
    defaults = flatten({"data": run.family.tokenizer_fields})
    defaults |= flatten(default_config(run.task.name, run.family.name).to_dict())
    changed = [
        [name, str(value), str(defaults[name])]
        for name, value in sorted(flatten(run.resolved).items())
        if value != defaults[name]
    ]
    data = run.resolved["data"]
    facts = {
        **counts,
        "train.seed": run.resolved["train"]["seed"],
        "data.seed": "train.seed" if data["seed"] is None else data["seed"],
        "steps": f"{results['steps']:,}",
        **({"best step": f"{results['best_step']:,}"} if "best_step" in results else {}),
        "training time (s)": f"{results['seconds']:,.1f}",
        "throughput (examples/s)": f"{results['examples_per_second']:,.1f}",
        **results["versions"],
        "SHA-256 of the weights": results["weights_sha256"],
        **{f"SHA-256 of {name}": value for name, value in results["data_sha256"].items()},
    }
    return run_facts(changed, facts)
