"""Runs that take long: each is kept, and several are told by their mean."""

import json
import os

from keras_attn.errors import UserError


def kept(path, settings, run):
    """What `run()` gave with these settings, now or before.

    Args:
        path: Of the JSON file that keeps it.
        settings: JSON-able; what was made with others is refused.
        run: Function, to something JSON-able.
    """
    if not os.path.exists(path):
        found = run()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{path}.unfinished", "w") as file:
            json.dump({"settings": settings, "found": found}, file)
        os.replace(f"{path}.unfinished", path)
    with open(path) as file:
        saved = json.load(file)
    if saved["settings"] != settings:
        raise UserError("Another --output is needed for other settings or rows. Received: "
                        f"{path}, made with {saved['settings']}")
    return saved["found"]


def told(scores):
    """`mean ± half` of the interval of 95 % over seeds, of percentages."""
    from keras_attn.tasks.finetuning.seed_statistics import mean_interval

    return "{:.1f} ± {:.1f}".format(*mean_interval(scores))
