"""Time and memory of loading and converting a checkpoint, compared with `transformers`.

    python -m benchmarks.loading --folder=bert-base --peer=/path/of/an/environment/bin/python

The folder is a checkpoint of transformers; --peer is a Python with torch and transformers. Each
operation runs in its own process, in turn; imports are not counted. transformers maps the file into
memory and reads it when the weights are used, with the first input. Memory is the peak of the
process minus what it held after its imports.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

_MEASURE = """
import json, sys, time
from benchmarks.process_memory import read_memory, reset_peak
folder, target = sys.argv[1:]
{imports}
before, start = reset_peak(), time.perf_counter()
{work}
seconds = time.perf_counter() - start
print(json.dumps([seconds, read_memory("VmHWM") - before]))
"""
_OPERATIONS = {
    "keras-attn, load": (
        "import tensorflow, safetensors, h5py\nfrom keras_attn.convert import read_ready",
        "read_ready(folder, lowercase=True).make_model()",
    ),
    "transformers, from_pretrained": (
        "import torch\nfrom transformers import BertForPreTraining",
        "BertForPreTraining.from_pretrained(folder)",
    ),
    "keras-attn, load and a first input": (
        "import numpy, tensorflow, safetensors, h5py\nfrom keras_attn.convert import read_ready",
        "read_ready(folder, lowercase=True).make_model()({'token_ids': numpy.arange(128)[None]})",
    ),
    "transformers, load and a first input": (
        "import torch\nfrom transformers import BertForPreTraining",
        "BertForPreTraining.from_pretrained(folder)(torch.arange(128)[None])",
    ),
    "keras-attn, convert to a workdir": (
        "import tensorflow, safetensors, h5py\nfrom keras_attn import convert\n"
        "from keras_attn.families.bert import tasks, workdirs, huggingface",
        "convert(folder, target, lowercase=True)",
    ),
    "transformers, from_ and save_pretrained": (
        "import torch\nfrom transformers import BertForPreTraining",
        "BertForPreTraining.from_pretrained(folder).save_pretrained(target)",
    ),
}


def main():
    from absl import app, flags

    folder = flags.DEFINE_string("folder", None, "Checkpoint of transformers.", required=True)
    peer = flags.DEFINE_string("peer", None, "Python with torch and transformers.", required=True)
    repeats = flags.DEFINE_integer("repeats", 7, "Number of measurements of each operation.")

    def measure(_):
        found = {name: [] for name in _OPERATIONS}
        for _ in range(repeats.value):
            for name, (imports, work) in _OPERATIONS.items():
                ours = name.startswith("keras-attn")
                found[name].append(
                    _run(sys.executable if ours else peer.value, imports, work, folder.value)
                )
        size = sum(
            os.path.getsize(os.path.join(folder.value, name))
            for name in os.listdir(folder.value)
            if name.endswith(".safetensors")
        )
        print(f"{size / 1e6:.0f} MB of weights; medians of {repeats.value}")
        for name, rows in found.items():
            seconds, memory = zip(*rows, strict=True)
            print(
                f"{name:42}{statistics.median(seconds):7.2f} s ({min(seconds):.2f} to "
                f"{max(seconds):.2f}){statistics.median(memory) / size:7.2f} x the weights"
            )

    app.run(measure)


def _run(python, imports, work, folder):
    with tempfile.TemporaryDirectory() as target:
        shutil.rmtree(target)
        done = subprocess.run(
            [python, "-c", _MEASURE.format(imports=imports, work=work), folder, target],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        os.makedirs(target, exist_ok=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
