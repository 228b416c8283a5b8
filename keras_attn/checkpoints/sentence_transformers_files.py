"""The settings and heads of embedding models in folders of sentence-transformers."""

import os
import re
from reprlib import repr as shorten

from keras_attn.checkpoints.huggingface_config import read_optional
from keras_attn.checkpoints.safetensors_files import read_tensors, write_tensors
from keras_attn.checkpoints.sentence_transformers_modules import MODULES
from keras_attn.checkpoints.tensor_map import ExternalTensor, split
from keras_attn.checkpoints.text_settings import (
    MIN_LENGTH,
    TextSettings,
    check_bool,
    check_length,
    check_prompts,
)
from keras_attn.errors import UserError
from keras_attn.io.json_files import read_object, write_json

SETTINGS, PROMPTS = "sentence_bert_config.json", "config_sentence_transformers.json"
# The field of each pooling before version 5.
_POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_DIMENSIONS = ("word_embedding_dimension", "embedding_dimension")  # before version 5, and from it
_ACTIVATIONS = {
    "linear.Identity": "linear",
    "activation.Tanh": "tanh",
    "activation.ReLU": "relu",
    "activation.GELU": "gelu",
    "activation.SiLU": "silu",
    "activation.Sigmoid": "sigmoid",
}
_ACTIVATION = re.compile(r"torch\.nn\.(?:modules\.\w+\.)?(\w+)")
_VECTOR = "sentence_embedding"
# Settings of which only one value, or none, is supported. `model_kwargs` and `model_args`, such as
# the implementation of attention, do not change the model.
_NEEDED = {
    "Transformer": {
        "transformer_task": "feature-extraction",
        "module_output_name": "token_embeddings",
        "modality_config": {
            "text": {"method": "forward", "method_output_name": "last_hidden_state"}
        },
        **dict.fromkeys(("processing_kwargs", "processor_kwargs", "tokenizer_args"), {}),
        **dict.fromkeys(("config_kwargs", "config_args"), {}),
        **dict.fromkeys(("query_length", "document_length", "query_expansion")),
    },
    "Dense": {"module_input_name": _VECTOR, "module_output_name": _VECTOR, "use_residual": False},
    "Normalize": {"module_input_name": _VECTOR, "module_output_name": _VECTOR},
}
_TYPES = "sentence_transformers.models."  # of all versions


def read_head(modules, hidden_dim):
    """Reads the head of an embedding model.

    Args:
        modules: `read_modules` of the folder.
        hidden_dim: Hidden size of the backbone.

    Returns:
        The arguments of `EmbeddingHead`, its weights by path below it, and whether prompts are
        pooled.

    Raises:
        UserError: If a file is missing, damaged or not supported. Names the file and the field.
    """
    pooling, include_prompt = _read_pooling(modules[1].folder, hidden_dim)
    size, steps, weights = len(pooling) * hidden_dim, [], {}
    for module in modules[2:]:
        if module.type == "Normalize":
            path = os.path.join(module.folder, "config.json")
            _require(read_optional(module.folder, "config.json"), module.type, path)
            steps.append({"type": "normalize"})
            continue
        step = _read_dense(module.folder, size)
        name = f"dense_{sum('units' in other for other in steps)}"
        weights |= read_tensors(module.folder).take(_dense_layout(name, size, step))
        steps.append(step)
        size = step["units"]
    return {"pooling": pooling, "steps": steps}, weights, include_prompt


def read_settings(folder, transformer, positions, include_prompt):
    """Reads the `TextSettings` of an embedding model.

    Args:
        folder: Folder of the model.
        transformer: Folder of its Transformer.
        positions: Maximum number of tokens of the backbone; None: any.
        include_prompt: See `TextSettings`.

    Raises:
        UserError: If a file is damaged or not supported. Names the file and the field.
    """
    path, found = os.path.join(transformer, SETTINGS), read_optional(transformer, SETTINGS)
    _require(found, "Transformer", path)
    lowercase, length = found.get("do_lower_case", False), found.get("max_seq_length")
    check_bool(lowercase, "do_lower_case", path)
    check_length(length, "max_seq_length", path)
    if length is None:  # from version 5 on
        length = read_optional(transformer, "tokenizer_config.json").get("model_max_length")
        length = length if type(length) is int and length >= MIN_LENGTH else None
    lengths = [size for size in (length, positions) if size]
    path, found = os.path.join(folder, PROMPTS), read_optional(folder, PROMPTS)
    if found.get("model_type") not in (None, "SentenceTransformer"):
        raise UserError(
            "model_type must be SentenceTransformer. "
            f"Received: {shorten(found['model_type'])} in {path}"
        )
    prompts, default = found.get("prompts", {}), found.get("default_prompt_name")
    check_prompts(prompts, default, path, "default_prompt_name")
    return TextSettings(min(lengths, default=None), prompts, default, include_prompt, lowercase)


def write_modules(folder, heads, weights, settings, hidden_dim, positions):
    """Writes all files but those of the Transformer.

    Args:
        folder: The folder.
        heads: Arguments of `EmbeddingHead`.
        weights: Its weights by path below it.
        settings: `TextSettings`.
        hidden_dim: Hidden size of the backbone.
        positions: Maximum number of tokens of the backbone; None: any.
    """
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    os.makedirs(os.path.join(folder, "1_Pooling"))
    write_json(
        os.path.join(folder, "1_Pooling", "config.json"),
        {
            "word_embedding_dimension": hidden_dim,
            **_pooling_fields(heads["pooling"]),
            "include_prompt": settings.include_prompt,
        },
    )
    size, count = len(heads["pooling"]) * hidden_dim, 0
    for step in heads["steps"]:
        if "units" not in step:
            modules.append((f"{len(modules)}_Normalize", "Normalize"))
            continue
        modules.append((f"{len(modules)}_Dense", "Dense"))
        _write_dense(os.path.join(folder, modules[-1][0]), f"dense_{count}", size, step, weights)
        size, count = step["units"], count + 1
    lengths = [size for size in (settings.max_length, positions) if size]
    write_json(
        os.path.join(folder, SETTINGS),
        {"max_seq_length": min(lengths, default=None), "do_lower_case": settings.lowercase},
    )
    write_json(
        os.path.join(folder, PROMPTS),
        {"prompts": settings.prompts, "default_prompt_name": settings.default_prompt},
    )
    write_json(
        os.path.join(folder, MODULES),
        [
            {"idx": number, "name": str(number), "path": path, "type": _TYPES + name}
            for number, (path, name) in enumerate(modules)
        ],
    )


def _read_pooling(folder, hidden_dim):
    """Returns the names of the poolings, and whether prompts are pooled."""
    path = os.path.join(folder, "config.json")
    found = read_object(path)
    names = [name for name in _DIMENSIONS if name in found]
    for name in names or _DIMENSIONS[:1]:  # which the file of another module lacks
        if found.get(name) != hidden_dim:
            raise UserError(
                f"{name} must be {hidden_dim}, the hidden size of the Transformer. "
                f"Received: {shorten(found.get(name))} in {path}"
            )
    flags = {name: value for name, value in found.items() if name.startswith("pooling_mode_")}
    for name, value in flags.items():
        check_bool(value, name, path)
        if value and name not in _POOLINGS.values():
            raise UserError(
                f"{name} is not supported, only {', '.join(_POOLINGS.values())}. "
                f"Received: true in {path}"
            )
    chosen = [name for name, field in _POOLINGS.items() if flags.get(field)]
    poolings = found.get("pooling_mode") or chosen or ["mean"]
    poolings = [poolings] if isinstance(poolings, str) else poolings
    if (
        not isinstance(poolings, list)
        or not poolings
        or not all(isinstance(name, str) and name in _POOLINGS for name in poolings)
    ):
        raise UserError(
            f"pooling_mode must be one or more of {', '.join(_POOLINGS)}. "
            f"Received: {shorten(poolings)} in {path}"
        )
    include_prompt = found.get("include_prompt", True)
    check_bool(include_prompt, "include_prompt", path)
    return poolings, include_prompt


def _pooling_fields(poolings):
    """Returns fields that all versions read; those of old versions have no order of poolings."""
    if poolings != [name for name in _POOLINGS if name in poolings]:
        return {"pooling_mode": poolings}
    return {field: name in poolings for name, field in _POOLINGS.items()}


def _read_dense(folder, size):
    """Returns the step of a Dense module whose inputs have a given size."""
    path = os.path.join(folder, "config.json")
    found = read_object(path)
    _require(found, "Dense", path)
    for name in ("in_features", "out_features"):
        if type(found.get(name)) is not int or found[name] < 1:
            raise UserError(
                f"{name} must be a positive integer. Received: {shorten(found.get(name))} in {path}"
            )
    if found["in_features"] != size:
        raise UserError(
            f"in_features must be {size}, the size of the vectors. "
            f"Received: {found['in_features']} in {path}"
        )
    bias, activation = found.get("bias", True), found.get("activation_function", "torch.nn.Tanh")
    check_bool(bias, "bias", path)
    known = {theirs.split(".")[1]: ours for theirs, ours in _ACTIVATIONS.items()}
    name = _ACTIVATION.fullmatch(activation) if isinstance(activation, str) else None
    if not name or name[1] not in known:
        raise UserError(
            f"activation_function must be one of torch.nn.{', '.join(known)}. "
            f"Received: {shorten(activation)} in {path}"
        )
    return {
        "type": "dense",
        "units": found["out_features"],
        "activation": known[name[1]],
        "use_bias": bias,
    }


def _write_dense(folder, name, size, step, weights):
    """Writes a Dense module.

    Raises:
        UserError: If sentence-transformers does not support the activation.
    """
    names = [theirs for theirs, ours in _ACTIVATIONS.items() if ours == step["activation"]]
    if not names:
        raise UserError(
            f"sentence-transformers supports the activations {', '.join(_ACTIVATIONS.values())}. "
            f"Received: activation={step['activation']}"
        )
    os.makedirs(folder)
    layout = _dense_layout(name, size, step)
    write_tensors(folder, split(layout, {path: weights[path] for path in layout}))
    write_json(
        os.path.join(folder, "config.json"),
        {
            "in_features": size,
            "out_features": step["units"],
            "bias": step["use_bias"],
            "activation_function": f"torch.nn.modules.{names[0]}",
        },
    )


def _dense_layout(name, size, step):
    """Returns the layout of the dense layer `name`; see `Tensors.take`."""
    kernel = ExternalTensor("linear.weight", (step["units"], size), transposed=True)
    layout = {f"{name}/kernel": [kernel]}
    if step["use_bias"]:
        layout[f"{name}/bias"] = [ExternalTensor("linear.bias", (step["units"],))]
    return layout


def _require(found, type, path):
    """Raises a `UserError` for a setting of a module that is set to an unsupported value."""
    for name, value in _NEEDED[type].items():
        if found.get(name) not in (None, value):
            raise UserError(
                f"{name} must be {value or 'unset'}. Received: {shorten(found[name])} in {path}"
            )
