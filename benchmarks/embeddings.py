"""Largest difference between embeddings here and in sentence-transformers.

    python -m benchmarks.embeddings --folder=all-MiniLM-L6-v2 --texts=texts.txt \\
        --peer=/path/of/an/environment/bin/python

The folder is a model of sentence-transformers, --texts has one text per line, and --peer is a
Python with sentence-transformers.
"""

import os
import subprocess
import tempfile

import numpy as np

_PEER = """
import sys, numpy
from sentence_transformers import SentenceTransformer
folder, texts, output = sys.argv[1:]
with open(texts, encoding="utf-8") as file:
    texts = file.read().splitlines()
numpy.save(output, SentenceTransformer(folder, device="cpu").encode(texts))
"""


def main():
    from absl import app, flags

    flags.DEFINE_string("folder", None, "Folder of sentence-transformers.", required=True)
    flags.DEFINE_string("texts", None, "File with one text per line.", required=True)
    flags.DEFINE_string("peer", None, "Python with sentence-transformers.", required=True)
    app.run(lambda argv: _compare(flags.FLAGS))


def _compare(flags):
    import keras_attn

    with open(flags.texts, encoding="utf-8") as file:
        texts = file.read().splitlines()
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "theirs.npy")
        subprocess.run([flags.peer, "-c", _PEER, flags.folder, flags.texts, output], check=True)
        theirs = np.load(output, allow_pickle=False)
    model = keras_attn.load(flags.folder)
    ours = model.embed(texts)
    print(
        f"{len(texts)} texts, {sum(model.cut.values())} truncated to {model.max_length} tokens: "
        f"largest difference {np.abs(ours - theirs).max():.1e}"
    )


if __name__ == "__main__":
    main()
