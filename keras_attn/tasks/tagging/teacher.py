"""Predictions of a teacher, which a smaller tagger learns."""

import numpy as np

from keras_attn.counts import counted
from keras_attn.errors import UserError

_SMALLEST = 1e-30  # probability with a finite logarithm


def teacher_logits(run, teacher, sentences, names, scheme):
    """Computes the log probabilities of the tags of all training words.

    Those of a conditional random field are of its marginal probabilities, which take the other tags
    of the sentence into account; its logits do not.

    Args:
        run: `Run`.
        teacher: `Tagger`.
        sentences: `Sentences` of the training split.
        names: Names of the tags.
        scheme: Their scheme: "iob2" or "raw".

    Returns:
        float32 `(W, K)`.

    Raises:
        UserError: If the teacher predicts other tags.
    """
    if teacher.scheme != scheme or {*teacher.labels} != {*names}:
        raise UserError(
            "train.teacher must predict the tags of the training data. Received: "
            f"train.teacher={teacher.path} for {', '.join(sorted(teacher.labels))} "
            f"({teacher.scheme}); training data: {', '.join(sorted(names))} ({scheme})"
        )
    run.say(f"predicting {counted(len(sentences), 'training sentence')} with train.teacher")
    found = teacher.probabilities(sentences.words)
    found = found[:, [list(teacher.labels).index(name) for name in names]]
    return np.log(np.maximum(found, _SMALLEST)).astype(np.float32)
