"""Runs the tasks of a plan as an Apache Beam pipeline, on the workers of any runner.

The elements are task numbers and the only step is `shard_writer.write_task`, so no text passes
through the runner. The result is written to the folder.
"""

import contextlib
import fnmatch
import io
import posixpath
import shlex
import uuid

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineState

from keras_attn.data.processes import in_threads
from keras_attn.data.shards.prepare import BEAM_JOBS
from keras_attn.data.shards.shard_writer import task_file, write_task
from keras_attn.errors import UserError, nearest
from keras_attn.io import gfile
from keras_attn.io.json_files import read_if_complete, write_json
from keras_attn.text.tokenizer_types import make_tokenizer

# "DirectRunner" would first try Prism, a binary that Beam downloads; this runner is pure Python.
_LOCAL = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
_LOCAL_NAMES = ("local", "direct", "directrunner")
# Workers only continue while the job file has this content. Otherwise, jobs of a killed caller that
# still run on other machines could write to a folder that has another plan by then.
_RUNNING = {"user_error": None}
_STEP = "WriteTask"
# Transient errors of remote storage; a retry may succeed.
_TRANSIENT = (TimeoutError, ConnectionError)


def make_pipeline(runner, options=""):
    """Creates an empty pipeline, so that invalid options are reported before any work.

    Args:
        runner: Name of a Beam runner, its dotted class, or "local".
        options: Beam's options, as on a command line.

    Returns:
        A `beam.Pipeline`.

    Raises:
        UserError: If the runner does not exist or lacks a required option.
    """
    arguments = _split(options)
    name = _LOCAL if runner.lower() in _LOCAL_NAMES else runner
    printed = io.StringIO()
    try:
        # argparse prints its usage and the error, and exits.
        with contextlib.redirect_stderr(printed):
            parsed = PipelineOptions(arguments)
            if parsed.view_as(StandardOptions).runner:
                raise UserError(
                    "Set the runner with --runner, not in --beam_options. "
                    f"Received: beam_options={options}"
                )
            parsed.get_all_options()
    except SystemExit as error:
        reason = printed.getvalue().strip().rpartition("error: ")[2]
        raise UserError(f"Invalid --beam_options: {options} ({reason})") from error
    parsed.view_as(StandardOptions).runner = name
    try:
        return beam.Pipeline(options=parsed)
    except Exception as error:  # runner classes raise various exceptions
        known = ["local", *StandardOptions.KNOWN_RUNNER_NAMES]
        hint = "" if "." in runner or runner in known else nearest(runner, known)
        raise _runner_error(runner, error, hint) from error


def write_tasks(plan, numbers, tokenizer, folder, pipeline):
    """Writes tasks on the workers of a runner.

    Args:
        plan: As returned by `text_sources.plan_source`.
        numbers: Indices of the tasks.
        tokenizer: See `keras_attn.text.tokenizer_types`.
        folder: Folder of the shards, which all workers must be able to access.
        pipeline: As returned by `make_pipeline`; can only be used once.

    Returns:
        Iterator of (number, result of `shard_writer.write_task`), once all tasks are finished.

    Raises:
        UserError: As raised by a worker, or if the runner cannot start or the workers write
            elsewhere.
        Exception: Any other error of a worker, as reported by the runner.
    """
    for name in fnmatch.filter(gfile.listdir(folder), BEAM_JOBS):
        _remove(posixpath.join(folder, name))
    job_file = posixpath.join(folder, BEAM_JOBS.replace("*", uuid.uuid4().hex))
    write_json(job_file, _RUNNING)
    needed = {key: value for key, value in plan.items() if key != "source"}
    step = _WriteTask(needed, tokenizer.recipe, folder, job_file)
    # Create also reshuffles the numbers; otherwise a runner may send all of them to one worker.
    _ = pipeline | "Numbers" >> beam.Create(numbers) | _STEP >> beam.ParDo(step)
    try:
        state = _run(pipeline)
    finally:
        found = read_if_complete(job_file) or _RUNNING
        _remove(job_file)
        if found["user_error"]:
            raise UserError(found["user_error"])
    tasks = in_threads(read_if_complete, [task_file(folder, number) for number in numbers])
    if None in tasks:
        if state != PipelineState.DONE:
            raise RuntimeError(f"The pipeline ended with state {state}.")
        raise UserError(
            "All workers of the runner must have access to the output folder. "
            f"Received: {folder}, where nothing was written"
        )
    return zip(numbers, tasks, strict=True)


class _WriteTask(beam.DoFn):
    """Writes a task, unless the job has ended."""

    def __init__(self, plan, recipe, folder, job_file):
        self.plan = plan
        self.recipe = recipe
        self.folder = folder
        self.job_file = job_file

    def setup(self):
        import tensorflow as tf

        # A process that only reads text must not allocate GPU memory.
        with contextlib.suppress(RuntimeError):  # TensorFlow is already initialized here
            tf.config.set_visible_devices([], "GPU")
        self.tokenizer = make_tokenizer(self.recipe)

    def process(self, number):
        if read_if_complete(self.job_file) != _RUNNING:
            return
        try:
            write_task(self.plan, number, self.tokenizer, self.folder)
        except UserError as error:
            if isinstance(error.__cause__, _TRANSIENT):
                raise  # the runner retries the task
            # Otherwise, Beam would retry the task and report a traceback.
            write_json(self.job_file, {"user_error": str(error)})


def _split(options):
    try:
        return shlex.split(options)
    except ValueError as error:
        raise UserError(
            f"--beam_options must be options as on a command line. Received: {options} ({error})"
        ) from error


def _runner_error(runner, error, hint=""):
    reason = " ".join(str(error).split())[:500] or type(error).__name__
    return UserError(
        "--runner must be a Beam runner, with its required --beam_options. "
        f"Received: runner={runner} ({reason}){hint}"
    )


def _run(pipeline):
    """Runs a pipeline until it ends; cancels it if this process fails."""
    try:
        result = pipeline.run()
    except Exception as error:  # of any class: from the step, whose name Beam adds, or the runner
        if str(error).startswith(KeyboardInterrupt.__name__):
            raise KeyboardInterrupt from error  # Ctrl-C during the step, in this process
        if _STEP in str(error):
            raise
        raise _runner_error(type(pipeline.runner).__name__, error) from error
    try:
        return result.wait_until_finish()
    except BaseException:
        with contextlib.suppress(Exception):  # many pipelines have ended or cannot be canceled
            result.cancel()
        raise


def _remove(path):
    with contextlib.suppress(FileNotFoundError):
        gfile.remove(path)
