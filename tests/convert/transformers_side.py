"""Runs in an environment with `transformers`: python transformers_side.py make|check|pickle FOLDER.

`check` loads what we wrote: FOLDER/SHAPE-back and FOLDER/golden/NAME. `pickle` replaces
model.safetensors by two pickles.
"""

import json
import logging
import pathlib
import sys
import warnings

import numpy as np
import safetensors.torch
import torch
import transformers

SHAPES = {
    "tiny": {
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 512,
    },
    "base": {},
}


def make_inputs():
    random = np.random.default_rng(0)
    inputs = {name: np.zeros((2, 24), np.int64) for name in ("segment_ids", "padding_mask")}
    inputs["token_ids"] = random.integers(1000, 30522, (2, 24))
    for row, (first, length) in enumerate([(10, 24), (5, 17)]):
        inputs["segment_ids"][row, first:length] = 1
        inputs["padding_mask"][row, :length] = 1
    inputs["mask_positions"] = np.array([[1, 5, 11, 23], [2, 3, 9, 16]])
    inputs["mask_ids"] = random.integers(1000, 30522, (2, 4))
    inputs["next_sentence_label"] = np.array([0, 1])
    return inputs


def run(model, inputs):
    """Outputs at the masked positions, loss and gradients."""
    rows = np.arange(2)[:, None]
    labels = np.full((2, 24), -100)
    labels[rows, inputs["mask_positions"]] = inputs["mask_ids"]
    outputs = model(
        input_ids=torch.tensor(inputs["token_ids"]),
        token_type_ids=torch.tensor(inputs["segment_ids"]),
        attention_mask=torch.tensor(inputs["padding_mask"]),
        labels=torch.tensor(labels),
        next_sentence_label=torch.tensor(inputs["next_sentence_label"]),
    )
    outputs.loss.backward()
    logits = outputs.prediction_logits.detach().numpy()
    found = {
        "loss": outputs.loss.detach().numpy(),
        "nsp_logits": outputs.seq_relationship_logits.detach().numpy(),
        "mlm_logits": logits[rows, inputs["mask_positions"]],
    }
    found |= {f"gradients/{name}": weight.grad.numpy() for name, weight in model.named_parameters()}
    return found


def make(folder):
    inputs = make_inputs()
    for name, shape in SHAPES.items():
        torch.manual_seed(0)
        model = transformers.BertForPreTraining(transformers.BertConfig(**shape)).eval()
        model.save_pretrained(folder / name, max_shard_size="200MB")
        np.savez(folder / f"{name}.npz", **run(model, inputs))
    np.savez(folder / "inputs.npz", **inputs)


class Refusing(logging.Handler):
    """Raises an error for every logged warning."""

    def emit(self, record):
        raise RuntimeError(record.getMessage())


def load(folder):
    """Loads a folder without any message."""
    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    model, info = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), (folder, info)
    assert transformers.AutoTokenizer.from_pretrained(folder)("a b")["input_ids"], folder
    return model.eval()


def flat(value):
    """Yields the tensors in nested tuples, such as caches and memories."""
    if torch.is_tensor(value):
        return [value]
    parts = (
        value
        if isinstance(value, (tuple, list))
        else [part for layer in value.layers for part in (layer.keys, layer.values)]
    )
    return [one for part in parts for one in flat(part)]


def check(folder):
    """Loads a folder without warnings and compares its outputs bitwise."""
    warnings.simplefilter("error")
    transformers.utils.logging.get_logger("transformers").addHandler(Refusing(logging.WARNING))
    golden = pathlib.Path(__file__).parents[1] / "golden"
    ids = torch.arange(5, 15)[None]
    for path in sorted((folder / "golden").iterdir()):
        with torch.no_grad():
            [source] = (
                golden / kind / path.name
                for kind in ("hugging_face", "language_models", "encoders")
                if (golden / kind / path.name).is_dir()
            )
            found, expected = (load(place)(input_ids=ids) for place in (path, source))
        assert found.keys() == expected.keys(), path
        for key in found:
            same = [
                torch.equal(*pair)
                for pair in zip(flat(found[key]), flat(expected[key]), strict=True)
            ]
            assert same and all(same), (path, key)
    inputs = dict(np.load(folder / "inputs.npz"))
    for name in SHAPES:
        with np.load(folder / f"{name}.npz") as expected:
            found = run(load(folder / f"{name}-back"), inputs)
            for key in ("loss", "mlm_logits", "nsp_logits"):
                assert np.array_equal(found[key], expected[key]), (name, key)
    print(json.dumps(transformers.__version__))


def pickle(folder):
    """Some tensors share memory, and some are not contiguous, as in published pickles."""
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for name, tensor in tensors.items():
        if tensor.ndim == 2:
            tensors[name] = tensor.T.contiguous().T
    embeddings = next(name for name in tensors if name.endswith("word_embeddings.weight"))
    tensors["cls.predictions.decoder.weight"] = tensors[embeddings]
    names = sorted(tensors)
    for number, part in enumerate((names[::2], names[1::2]), 1):
        found = {name: tensors[name] for name in part}
        torch.save(found, folder / f"pytorch_model-0000{number}-of-00002.bin")
    path.unlink()


if __name__ == "__main__":
    {"make": make, "check": check, "pickle": pickle}[sys.argv[1]](pathlib.Path(sys.argv[2]))
