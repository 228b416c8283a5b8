"""Writes the tasks of a plan as an Apache Beam pipeline, on the machines of any of its runners.

The elements are numbers of tasks and the one step is `shard_writer.write_task`, so no text goes
through the runner. What is written to the folder is the result.
"""

import contextlib
import fnmatch
import io
import shlex
import uuid

import apache_beam as beam
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineState

from keras_attn.data.processes import in_threads
from keras_attn.data.shards.prepare import BEAM_JOBS
from keras_attn.data.shards.shard_writer import task_file, write_task
from keras_attn.errors import UserError, nearest
from keras_attn.io.json_files import read_if_complete, write_json
from keras_attn.text.recipes import tokenizer_of

# "DirectRunner" would try Prism first, a program that Beam downloads; this one is Python alone.
_LOCAL = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
_LOCAL_NAMES = ("local", "direct", "directrunner")
# A job goes on while its file says this: else what a killed caller left running on other machines
# would write into a folder that may have another plan by then.
_GOING_ON = {"user_error": None}
_STEP = "WriteTask"
# Of a storage far away; the next try may succeed.
_PASSING = (tf.errors.UnavailableError, tf.errors.DeadlineExceededError, tf.errors.AbortedError)


def make_pipeline(runner, options=""):
    """Makes an empty pipeline, so that mistakes show before any work.

    Args:
        runner: Name of a Beam runner, its dotted class, or "local".
        options: Beam's options, as on a command line.

    Returns:
        A `beam.Pipeline`.

    Raises:
        UserError: If there is no such runner or it misses an option.
    """
    arguments = _split(options)
    name = _LOCAL if runner.lower() in _LOCAL_NAMES else runner
    printed = io.StringIO()
    try:
        # argparse prints what is wrong, below its usage, and exits.
        with contextlib.redirect_stderr(printed):
            parsed = PipelineOptions(arguments)
            if parsed.view_as(StandardOptions).runner:
                raise UserError(f"The runner is a flag of its own. Received: {options}")
            parsed.get_all_options()
    except SystemExit as error:
        reason = printed.getvalue().strip().rpartition("error: ")[2]
        raise UserError(f"Options of Beam are needed. Received: {options} ({reason})") from error
    parsed.view_as(StandardOptions).runner = name
    try:
        return beam.Pipeline(options=parsed)
    except Exception as error:  # whatever the class of the runner does
        known = ["local", *StandardOptions.KNOWN_RUNNER_NAMES]
        hint = "" if "." in runner or runner in known else nearest(runner, known)
        raise _unfit(runner, error, hint) from error


def write_tasks(plan, numbers, tokenizer, folder, pipeline):
    """Writes tasks on the workers of a runner.

    Args:
        plan: Of `sources.plan_source`.
        numbers: Which tasks.
        tokenizer: See `keras_attn.text.recipes`.
        folder: Where the shards go; all workers must reach it.
        pipeline: Of `make_pipeline`, for this call alone.

    Returns:
        Iterator of (number, what `shard_writer.write_task` returns), when all are done.

    Raises:
        UserError: One that a worker met, or if the runner cannot start or the workers write
            elsewhere.
        Exception: Any other that a worker met, as the runner tells it.
    """
    for name in fnmatch.filter(tf.io.gfile.listdir(folder), BEAM_JOBS):
        _remove(tf.io.gfile.join(folder, name))
    job_file = tf.io.gfile.join(folder, BEAM_JOBS.replace("*", uuid.uuid4().hex))
    write_json(job_file, _GOING_ON)
    needed = {key: value for key, value in plan.items() if key != "source"}
    step = _WriteTask(needed, tokenizer.recipe, folder, job_file)
    # Create also shuffles the numbers; without that, a runner may give all of them to one worker.
    _ = pipeline | "Numbers" >> beam.Create(numbers) | _STEP >> beam.ParDo(step)
    try:
        state = _run(pipeline)
    finally:
        found = read_if_complete(job_file) or _GOING_ON
        _remove(job_file)
        if found["user_error"]:
            raise UserError(found["user_error"])
    tasks = in_threads(read_if_complete, [task_file(folder, number) for number in numbers])
    if None in tasks:
        if state != PipelineState.DONE:
            raise RuntimeError(f"The pipeline ended with state {state}.")
        raise UserError("All workers of the runner must see the folder for prepared text. "
                        f"Received: {folder}, where they wrote nothing")
    return zip(numbers, tasks, strict=True)


class _WriteTask(beam.DoFn):
    """Writes the task of a number, unless the job has ended."""

    def __init__(self, plan, recipe, folder, job_file):
        self.plan = plan
        self.recipe = recipe
        self.folder = folder
        self.job_file = job_file

    def setup(self):
        # A process that only reads text must not take the memory of a GPU.
        with contextlib.suppress(RuntimeError):  # TensorFlow is in use here already
            tf.config.set_visible_devices([], "GPU")
        self.tokenizer = tokenizer_of(self.recipe)

    def process(self, number):
        if read_if_complete(self.job_file) != _GOING_ON:
            return
        try:
            write_task(self.plan, number, self.tokenizer, self.folder)
        except UserError as error:
            if isinstance(error.__cause__, _PASSING):
                raise  # the runner does it again
            # Beam would do it again, and tell of it as a traceback.
            write_json(self.job_file, {"user_error": str(error)})


def _split(options):
    try:
        return shlex.split(options)
    except ValueError as error:
        raise UserError(f"Options as on a command line are needed. Received: {options} ({error})"
                        ) from error  # fmt: skip


def _unfit(runner, error, hint=""):
    reason = " ".join(str(error).split())[:500] or type(error).__name__
    return UserError("A runner of Beam and the options it needs must be given. "
                     f"Received: runner={runner} ({reason}){hint}")  # fmt: skip


def _run(pipeline):
    """Runs a pipeline to its end; cancels it if that fails here."""
    try:
        result = pipeline.run()
    except Exception as error:  # the step's, named by Beam, or of the runner's start: any class
        if str(error).startswith(KeyboardInterrupt.__name__):
            raise KeyboardInterrupt from error  # Ctrl-C in the step, in this process
        if _STEP in str(error):
            raise
        raise _unfit(type(pipeline.runner).__name__, error) from error
    try:
        return result.wait_until_finish()
    except BaseException:
        with contextlib.suppress(Exception):  # many have ended, or cannot
            result.cancel()
        raise


def _remove(path):
    with contextlib.suppress(tf.errors.NotFoundError):
        tf.io.gfile.remove(path)
