"""Checkpoints of google-research/bert: TensorFlow 1's files, bert_config.json, vocab.txt."""

import os
import re

from keras_attn.checkpoints.encoder_config import read_architecture, write_architecture
from keras_attn.checkpoints.huggingface_config import id2label, read_id2label
from keras_attn.checkpoints.tensor_map import ExternalTensor, split
from keras_attn.checkpoints.tensorflow_files import (
    folder_and_name,
    read_lowercase,
    read_tensors,
    slots,
    write_tensors,
)
from keras_attn.checkpoints.trained_model import TrainedModel
from keras_attn.checkpoints.word_piece_files import padded_tokenizer
from keras_attn.errors import UserError
from keras_attn.families.bert.family import FAMILY
from keras_attn.families.bert.tensors import check_writable, model_tensors
from keras_attn.io.json_files import read_object, write_json
from keras_attn.registry import TASKS
from keras_attn.text.vocabulary import read_vocabulary, write_vocabulary

CONFIG, VOCABULARY, PREFIX = "bert_config.json", "vocab.txt", "bert_model.ckpt"
# Unlike in transformers, "gelu" is the approximation with tanh.
_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu", "tanh": "tanh"}
_TASKS = ("backbone", "masked_lm", "classification", "span_qa")
# Regular expressions of names in transformers, and their replacements.
_NAMES = (
    (r"LayerNorm\.weight$", "LayerNorm/gamma"),
    (r"LayerNorm\.bias$", "LayerNorm/beta"),
    (r"_embeddings\.weight$", "_embeddings"),
    (r"^cls\.predictions\.bias$", "cls/predictions/output_bias"),
    (r"^cls\.seq_relationship\.weight$", "cls/seq_relationship/output_weights"),
    (r"^cls\.seq_relationship\.bias$", "cls/seq_relationship/output_bias"),
    (r"^classifier\.weight$", "output_weights"),
    (r"^classifier\.bias$", "output_bias"),
    (r"^qa_outputs\.weight$", "cls/squad/output_weights"),
    (r"^qa_outputs\.bias$", "cls/squad/output_bias"),
    (r"\.weight$", "/kernel"),
    (r"layer\.(\d+)", r"layer_\1"),
    (r"\.", "/"),
)


def read(folder):
    """Reads a folder, or one of several checkpoints in it by its name without `.index`.

    Returns:
        A `TrainedModel`; `lowercase` is None unless `write` wrote the folder.

    Raises:
        UserError: If a file is missing, damaged or not from a BERT.
    """
    folder, name = folder_and_name(folder)
    path = os.path.join(folder, CONFIG)
    config = {"layer_norm_eps": 1e-12, **read_object(path)}
    tensors = read_tensors(folder, name)
    architecture = read_architecture(FAMILY, config, path, len(tensors.header), _ACTIVATIONS)
    architecture["use_pooler"] = True
    task, heads, files = _head(config, tensors.header, path)
    weights = tensors.take(_layout(architecture, task, heads), slots(tensors.header))
    lowercase = read_lowercase(config, path)
    tokenizer = padded_tokenizer(
        read_vocabulary(os.path.join(folder, VOCABULARY)),
        lowercase,
        architecture["vocabulary_size"],
        folder,
    )
    return TrainedModel(
        folder, FAMILY, task, architecture, heads, weights, tokenizer, lowercase, files
    )


def write(folder, trained):
    """Writes a folder that google-research/bert reads.

    bert_config.json gets the additional fields `do_lower_case`, `id2label` and
    `no_answer_threshold`, which the scripts of google-research/bert ignore: there they are flags.

    Args:
        folder: An empty folder.
        trained: `TrainedModel`.

    Raises:
        UserError: If google-research/bert does not support the model.
    """
    if trained.task not in _TASKS:
        raise UserError(
            f"google-research/bert supports only models for {', '.join(_TASKS)}. "
            f"Received: a model for {trained.task}"
        )
    check_writable(
        trained,
        "google-research/bert",
        multilabel=False,
        use_pooler=True,
        layer_norm_epsilon=1e-12,
        tie_embeddings=True,
    )
    config = write_architecture(trained.architecture, "google-research/bert", _ACTIVATIONS)
    config.pop("layer_norm_eps")
    config["do_lower_case"] = trained.lowercase
    if labels := trained.files.get("labels"):
        config["id2label"] = id2label(labels)
    if trained.task == "span_qa":
        config |= TASKS["span_qa"].write_head(trained)
    layout = _layout(trained.architecture, trained.task, trained.heads)
    write_tensors(os.path.join(folder, PREFIX), split(layout, trained.weights))
    write_vocabulary(os.path.join(folder, VOCABULARY), trained.tokenizer.vocabulary)
    write_json(os.path.join(folder, CONFIG), config)


def _head(config, header, path):
    """Returns the task, the arguments of its head and arguments of `TrainedModel`."""
    if "output_weights" in header:
        classes = header["output_weights"][0][0] if header["output_weights"][0] else 0
        labels = [str(number) for number in range(min(classes, 1_000_000))]
        if "id2label" in config:
            labels = read_id2label(config, path)
        if len(labels) != classes:
            raise UserError(
                f"output_weights has {classes} rows, but id2label has {len(labels)} labels "
                f"in {path}"
            )
        # run_classifier.py has a fixed dropout rate.
        return (
            "classification",
            {"num_classes": classes, "dropout": 0.1},
            {"labels": labels if classes > 1 else []},
        )
    if "cls/squad/output_weights" in header:
        return "span_qa", *TASKS["span_qa"].read_head(config, path)
    if any(name.startswith("cls/predictions/") for name in header):
        return (
            "masked_lm",
            {
                "next_sentence": any(name.startswith("cls/seq_relationship/") for name in header),
                "tie_embeddings": True,
            },
            {},
        )
    return "backbone", {}, {}


def _layout(architecture, task, heads):
    return {
        path: [_piece(name, own) for name in names]
        for path, names, own in model_tensors(architecture, task, heads)
    }


def _piece(name, own):
    # Only the kernels of output layers have shape (classes, hidden_dim).
    transposed = name in ("cls.seq_relationship.weight", "classifier.weight", "qa_outputs.weight")
    for pattern, theirs in _NAMES:
        name = re.sub(pattern, theirs, name)
    return ExternalTensor(name, own[::-1] if transposed else own, transposed)
