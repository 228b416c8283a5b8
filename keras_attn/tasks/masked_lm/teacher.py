"""The teacher of a masked language model, which predicts the masked tokens in each step."""

from keras_attn.data.shards.shard_files import is_prepared
from keras_attn.errors import UserError


def tokenizer_of(run, teacher):
    """Returns the tokenizer of a teacher if the family of the run can use it, else None.

    Args:
        run: `Run`.
        teacher: `TrainedModel`, or None.
    """
    suits = teacher and teacher.family.tokenizers is run.family.tokenizers
    return teacher.tokenizer if suits else None


def check_teacher(run, teacher, architecture, tokenizer):
    """Checks that a teacher can read the rows of a run and predicts the same tokens.

    Args:
        run: `Run`.
        teacher: `TrainedModel`.
        architecture: Arguments of the backbone of the run.
        tokenizer: Tokenizer of the run.

    Raises:
        UserError: If it has another vocabulary, or too few positions.
    """
    own, other = _described(tokenizer), _described(teacher.tokenizer)
    sizes = [known["vocabulary_size"] for known in (teacher.architecture, architecture)]
    if own != other or sizes[0] != sizes[1]:
        given = run.config.train.teacher
        raise UserError(
            "train.teacher must have the vocabulary of the run, and the same data.lowercase. "
            f"{_advice(run, teacher)}. Received: train.teacher={given} "
            f"with {sizes[0]:,} tokens, lowercase={other[1]}; the run has {sizes[1]:,} tokens, "
            f"lowercase={own[1]}{_difference(own[0], other[0])}"
        )
    length, positions = run.config.data.length, teacher.architecture.get("max_length")
    if positions is not None and length > positions:
        raise UserError(
            f"data.length={length} exceeds the {positions} positions of train.teacher. Lower "
            f"data.length. Received: train.teacher={run.config.train.teacher}"
        )


def _advice(run, teacher):
    """Returns how the run gets the vocabulary of the teacher, or the teacher that of the run."""
    if run.config.pretrained or tokenizer_of(run, teacher) is None:
        return "Choose another teacher"
    lowercase = teacher.tokenizer.lowercase
    if is_prepared(run.config.data.train):
        vocabulary = f"--vocab={run.config.train.teacher}"
        flag = "--lowercase" if lowercase else "--nolowercase"
        return f"Prepare the text in another folder, with {vocabulary} {flag}"
    return f"Leave data.vocab unset, and set data.lowercase={lowercase}"


def _described(tokenizer):
    return list(tokenizer.vocabulary), tokenizer.lowercase


def _difference(own, other):
    """Describes the first token that differs in vocabularies of one size, for the message."""
    if len(own) != len(other) or own == other:
        return ""
    number = next(n for n, pair in enumerate(zip(own, other, strict=True)) if len({*pair}) > 1)
    return f"; token {number} is {other[number]!r}, not {own[number]!r}"
