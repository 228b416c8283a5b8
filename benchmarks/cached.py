"""Results of long runs, cached in files, and their mean over seeds."""

import json
import os

from keras_attn.errors import UserError


def cached(path, settings, run):
    """Returns the result of `run()`, from a file if it was called before.

    Args:
        path: JSON file of the result.
        settings: JSON-serializable settings of the run.
        run: Function without arguments; returns something JSON-serializable.

    Raises:
        UserError: If the file was written with other settings.
    """
    if not os.path.exists(path):
        result = run()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.unfinished", "w") as file:
            json.dump({"settings": settings, "found": result}, file)
        os.replace(f"{path}.unfinished", path)
    with open(path) as file:
        saved = json.load(file)
    if saved["settings"] != settings:
        raise UserError(
            "Settings or data have changed. Choose another --output. Received: "
            f"{path}, written with {saved['settings']}"
        )
    return saved["found"]


def format_scores(scores):
    """Returns the mean and 95 % confidence interval over seeds of percentages, as text."""
    from keras_attn.tasks.finetuning.seed_statistics import mean_interval

    return "{:.1f} ± {:.1f}".format(*mean_interval(scores))
