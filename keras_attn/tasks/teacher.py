"""The teacher of a run, whose predictions a smaller model learns (knowledge distillation)."""

from keras_attn.errors import UserError


def read_teacher(run):
    """Reads the model `train.teacher`.

    Args:
        run: `Run`.

    Returns:
        `TrainedModel` for the task of the run; None without a teacher.

    Raises:
        UserError: If it is not a model for the task, or fields of distillation are set without a
            teacher.
    """
    train = run.config.train
    if train.teacher is None:
        for name in ("distillation", "distillation_temperature"):
            if train[name] is not None:
                raise UserError(
                    f"train.{name} requires train.teacher. Received: train.{name}={train[name]}"
                )
        return None
    teacher = run.read(train.teacher, "train.teacher")
    if teacher.task != run.task.name:
        raise UserError(
            f"train.teacher must be a model for {run.task.name}. "
            f"Received: train.teacher={train.teacher}, a model for {teacher.task}"
        )
    return teacher


def teacher_hash(teacher):
    """Returns the SHA-256 of the weights of a teacher by name, for the hashes of the data.

    Args:
        teacher: Result of `read_teacher`.
    """
    return {"teacher": teacher.sha256} if teacher else {}


def distillation(train):
    """Returns the arguments of a head that learns from a teacher.

    Args:
        train: `config.train`.
    """
    weight, temperature = train.distillation, train.distillation_temperature
    return {
        "distillation": 0.5 if weight is None else weight,
        "distillation_temperature": 2.0 if temperature is None else temperature,
    }


# Arguments of the heads of workdirs that do not contain them.
WITHOUT_TEACHER = {"distillation": 0.0, "distillation_temperature": 2.0}
