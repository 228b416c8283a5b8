"""Runs the tasks of a plan in several processes.

Each is `python -m keras_attn.data.shards.shard_processes` and receives task numbers on its standard
input, so it ends if the caller is killed.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from queue import Empty, SimpleQueue

from keras_attn.data.processes import start_python
from keras_attn.errors import UserError
from keras_attn.tensorflow_import import import_tensorflow


def write_tasks(plan, numbers, tokenizer, folder, processes):
    """Writes tasks in parallel.

    Args:
        plan: As returned by `text_sources.plan_source`.
        numbers: Indices of the tasks.
        tokenizer: See `keras_attn.text.tokenizer_types`.
        folder: Folder of the shards.
        processes: Number of processes.

    Returns:
        Iterator of (number, result of `shard_writer.write_task`), in the order of completion.

    Raises:
        UserError: The first one of any process; the other processes are killed.
        RuntimeError: If a process fails otherwise.
    """
    job = {
        "plan": plan,
        "folder": folder,
        "tokenizer": tokenizer.recipe,
    }
    todo, done = SimpleQueue(), SimpleQueue()
    for number in numbers:
        todo.put(number)
    workers = [
        # A process that only reads text must not allocate GPU memory.
        start_python(__name__, CUDA_VISIBLE_DEVICES="-1", TOKENIZERS_PARALLELISM="false")
        for _ in range(min(processes, len(numbers)))
    ]
    try:
        for worker in workers:
            threading.Thread(target=_feed, args=(worker, job, todo, done), daemon=True).start()
        for _ in numbers:
            number, reply = done.get()
            if "user_error" in reply:
                raise UserError(reply["user_error"])
            if "error" in reply:
                raise RuntimeError(reply["error"])
            yield number, reply
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _feed(worker, job, todo, done):
    """Sends one task after another to a process, and forwards its replies."""
    number = None
    try:
        worker.stdin.write(json.dumps(job) + "\n")
        while True:
            number = todo.get_nowait()
            worker.stdin.write(f"{number}\n")
            worker.stdin.flush()
            done.put((number, json.loads(worker.stdout.readline())))
    except Empty:
        with contextlib.suppress(OSError):
            worker.stdin.close()
    except (OSError, ValueError):  # broken pipe, or an incomplete line
        status = worker.wait()
        why = " (out of memory?)" if status == -signal.SIGKILL else ""
        done.put((number, {"error": f"A process ended with status {status}{why}."}))


def _work():
    """Runs in each process: reads the job, then task numbers, and writes replies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller kills this process
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # library output must not be mistaken for a reply

    import_tensorflow()
    import tensorflow as tf

    from keras_attn.data.shards.shard_writer import write_task
    from keras_attn.text.tokenizer_types import make_tokenizer

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    job = json.loads(sys.stdin.readline())
    tokenizer = make_tokenizer(job["tokenizer"])
    for line in sys.stdin:
        try:
            reply = write_task(job["plan"], int(line), tokenizer, job["folder"])
        except UserError as error:
            reply = {"user_error": str(error)}
        except Exception:
            reply = {"error": traceback.format_exc()}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    _work()
