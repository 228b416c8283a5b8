"""Writes the tasks of a plan in several processes.

Each is `python -m keras_attn.data.shards.shard_processes`, told the number of the next task on its
standard input, so that it ends when the caller is killed.
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
from keras_attn.quiet import import_quietly


def write_tasks(plan, numbers, tokenizer, folder, processes):
    """Writes tasks side by side.

    Args:
        plan: Of `sources.plan_source`.
        numbers: Which tasks.
        tokenizer: See `keras_attn.text.recipes`.
        folder: Where the shards go.
        processes: How many.

    Returns:
        Iterator of (number, what `shard_writer.write_task` returns), as they get done.

    Raises:
        UserError: The first one of any process; the others are ended.
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
        # A process that only reads text must not take the memory of a GPU.
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
    """Gives a process one task after the other, and hands on its replies."""
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
    except (OSError, ValueError):  # the pipe broke, or half a line came
        status = worker.wait()
        why = " (out of memory?)" if status == -signal.SIGKILL else ""
        done.put((number, {"error": f"A process ended with status {status}{why}."}))


def _work():
    """Is one of the processes: reads the job, then task numbers, and writes replies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller ends us
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not be taken for a reply

    import_quietly()
    import tensorflow as tf

    from keras_attn.data.shards.shard_writer import write_task
    from keras_attn.text.recipes import tokenizer_of

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    job = json.loads(sys.stdin.readline())
    tokenizer = tokenizer_of(job["tokenizer"])
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
