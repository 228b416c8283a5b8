"""Makes sentence_transformers/: files of embedding models, and embeddings of texts.

Run with `torch` and `sentence-transformers` installed:

    python tests/golden/make_sentence_transformers.py

The Transformer of each model is hugging_face/encoder, whose files are not repeated.
"""

import json
import pathlib
import shutil
import tempfile

import numpy as np
import sentence_transformers
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
)

GOLDEN = pathlib.Path(__file__).parent
FOLDER, ENCODER = GOLDEN / "sentence_transformers", GOLDEN / "hugging_face/encoder"
CASED = GOLDEN / "hugging_face/masked_lm/tokenizer.json"
REPEATED = {"config.json", "model.safetensors", "tokenizer.json", "README.md"}
TEXTS = ["a fog", "", "Bald Eagle", "cab a cab", "c d e f g h i j k l m n o p q r s t u v w"]
QUERY = "b a d: "
# The prompts that each model is given; None: its default.
PROMPTS = {"cls": (None, "query", ""), "prompts": (None, "query", QUERY)}


def pooling(*modes, **options):
    return Pooling(12, pooling_mode=modes[0] if len(modes) == 1 else modes, **options)


# Modules after the Transformer, its maximum length, and prompts; saved by the library.
SAVED = {
    "cls": ([pooling("cls")], None, {"prompts": {"query": QUERY}, "default_prompt_name": "query"}),
    "max": ([pooling("max"), Normalize()], 7, {}),
    "dense": ([pooling("mean"), Dense(12, 7), Normalize()], None, {}),
    "several": (
        [
            pooling("mean", "cls"),
            Dense(24, 9, bias=False, activation_function=torch.nn.GELU()),
            Normalize(),
            Dense(9, 5, activation_function=torch.nn.Identity()),
        ],
        None,
        {},
    ),
    "prompts": (
        [pooling("cls", "weightedmean", "lasttoken", "max", include_prompt=False)],
        12,
        {"prompts": {"query": QUERY}},
    ),
}
# Files as they were written before version 5.
WRITTEN = {
    "mean": {
        "modules.json": [
            {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for n, (path, kind) in enumerate(
                [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
            )
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": 12,
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": True,
        },
        "sentence_bert_config.json": {"max_seq_length": 9, "do_lower_case": True},
        "config_sentence_transformers.json": {"__version__": {"sentence_transformers": "2.0.0"}},
    }
}


def save(name):
    """Writes a model with the library."""
    modules, length, options = SAVED[name]
    torch.manual_seed(len(name))
    for module in modules:
        for weight in module.parameters():
            torch.nn.init.normal_(weight, std=0.5)
    transformer = Transformer(str(ENCODER))
    if length:
        transformer.max_seq_length = length
    SentenceTransformer(modules=[transformer, *modules], device="cpu", **options).save(
        str(FOLDER / name)
    )
    for file in REPEATED:
        (FOLDER / name / file).unlink(missing_ok=True)


def write(name):
    """Writes a model with a cased tokenizer, as old versions did."""
    for path, content in WRITTEN[name].items():
        (FOLDER / name / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name / path).write_text(json.dumps(content, indent=2) + "\n")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(CASED.with_name(file), FOLDER / name)


def embed(name):
    """Returns the embeddings of a folder by prompt."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ENCODER, folder, dirs_exist_ok=True)
        shutil.copytree(FOLDER / name, folder, dirs_exist_ok=True)
        model = SentenceTransformer(folder, device="cpu")
        found = {}
        for number, prompt in enumerate(PROMPTS.get(name, (None,))):
            named = {"prompt_name" if prompt in model.prompts else "prompt": prompt}
            found[f"{name}/{number}"] = model.encode(TEXTS, **named)
        return found


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    arrays = {}
    for name in (*SAVED, *WRITTEN):
        (save if name in SAVED else write)(name)
        arrays |= embed(name)
    np.savez_compressed(FOLDER / "outputs.npz", **arrays)
    versions = {
        "sentence_transformers": sentence_transformers.__version__,
        "torch": torch.__version__,
    }
    (FOLDER / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
