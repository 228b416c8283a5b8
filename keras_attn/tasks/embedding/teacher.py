"""Embeddings by a teacher, whose similarities a smaller model learns."""

import numpy as np

from keras_attn.counts import counted


def teacher_embeddings(run, teacher, groups):
    """Embeds all training texts with a teacher, equal ones once.

    Args:
        run: `Run`.
        teacher: `Embedder`.
        groups: `Groups` of the training split, with C columns.

    Returns:
        `text_fields` of `GroupExamples`: `teacher_embedding`, float32 `(N, C, F)`, and
        `text_numbers`, int32 `(N, C)`.
    """
    numbers = {}  # of the texts
    columns = [[numbers.setdefault(text, len(numbers)) for text in own] for own in groups.columns]
    run.say(f"embedding {counted(len(numbers), 'training text')} with train.teacher")
    vectors, places = teacher.embed(list(numbers)), np.array(columns, np.int32).T
    return {"teacher_embedding": vectors[places], "text_numbers": places}
