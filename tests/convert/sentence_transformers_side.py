"""Runs in an environment with sentence-transformers: python sentence_transformers_side.py FOLDER.

Writes NAME.npy, the embeddings of the lines of texts.txt, for each model FOLDER/NAME.
"""

import pathlib
import sys

import numpy as np
from sentence_transformers import SentenceTransformer

FOLDER = pathlib.Path(sys.argv[1])
TEXTS = (FOLDER / "texts.txt").read_text(encoding="utf-8").split("\n")[:-1]

for path in sorted(FOLDER.iterdir()):
    if path.is_dir():
        model = SentenceTransformer(str(path), device="cpu")
        np.save(path.with_suffix(".npy"), model.encode(TEXTS))
