"""A sequence-to-sequence task: from `readTextFile` to `read_text_file`, character by character.

The names are those of functions and variables in Python's standard library.
"""

import numpy as np
from compare import BEGIN, END, names_of_functions, padded

LONGEST, CHARACTERS = 24, 128


def rows():
    """Returns the inputs of sequence-to-sequence models as a dictionary."""
    names = names_of_functions(LONGEST)
    sources = [
        words[0] + "".join(map(str.capitalize, words[1:]))
        for words in (name.split("_") for name in names)
    ]
    targets = [[*name.encode(), END] for name in names]
    source = padded([list(name.encode()) for name in sources], LONGEST)
    label = padded(targets, LONGEST + 1)
    begin = padded([[BEGIN, *target[:-1]] for target in targets], LONGEST + 1)
    return {
        "token_ids": source,
        "padding_mask": np.minimum(source, 1),
        "target_ids": begin,
        "label": label,
        "sample_weight": np.minimum(label, 1).astype("float32"),
    }
