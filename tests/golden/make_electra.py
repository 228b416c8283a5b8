"""Makes electra/: small ELECTRA models of `transformers`, and their outputs.

The weights are random, in float32; outputs and gradients are computed in float64. Run with `torch`
and `transformers` installed:

    python tests/golden/make_electra.py
"""

import json
import pathlib
import shutil

import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).with_name("electra")
CONFIG = {
    "vocab_size": 45,
    "embedding_size": 8,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 24,
}
CLASSES = {0: "bad", 1: "good", 2: "so so"}
TAGS = {0: "O", 1: "B-PER", 2: "I-PER"}
# Folder: class and further settings.
MODELS = {
    "encoder": ("ElectraModel", {}),
    "square": ("ElectraModel", {"embedding_size": 12, "hidden_act": "relu"}),
    "masked_lm": ("ElectraForMaskedLM", {}),
    "untied": ("ElectraForMaskedLM", {"tie_word_embeddings": False}),
    "discriminator": ("ElectraForPreTraining", {"hidden_act": "gelu_new"}),
    "classifier": (
        "ElectraForSequenceClassification",
        {"id2label": CLASSES, "classifier_dropout": 0.25},
    ),
    "tagger": ("ElectraForTokenClassification", {"id2label": TAGS}),
    "reader": ("ElectraForQuestionAnswering", {}),
}


def make_inputs():
    """Returns three pairs of texts of 11, 7 and 9 real tokens, padded to 11."""
    draw, positions = np.random.default_rng(0), np.arange(11)
    mask = (positions < np.array([11, 7, 9])[:, None]).astype(int)
    return {
        "token_ids": np.where(mask, draw.integers(5, 45, (3, 11)), 0),
        "padding_mask": mask,
        "segment_ids": mask * (positions >= np.array([5, 3, 2])[:, None]),
    }


def labels_of(kind, mask):
    """Returns the labels, and for question answering those of the end."""
    draw = np.random.default_rng(1)
    if "MaskedLM" in kind:
        chosen = (draw.random((3, 11)) < 0.4) & (mask > 0)
        return {"labels": np.where(chosen, draw.integers(5, 40, (3, 11)), -100)}
    if "PreTraining" in kind:
        return {"labels": draw.integers(0, 2, (3, 11))}
    if "Sequence" in kind:
        return {"labels": np.array([2, 0, 1])}
    if "Token" in kind:
        return {"labels": np.where(mask > 0, draw.integers(0, 3, (3, 11)), -100)}
    if "Question" in kind:
        return {"start_positions": np.array([5, 3, 2]), "end_positions": np.array([7, 5, 4])}
    return {}


def make(name, inputs, tokenizer):
    """Writes the folder of a model and returns its inputs, outputs and gradients."""
    kind, settings = MODELS[name]
    torch.manual_seed(len(name))
    config = transformers.ElectraConfig(**{**CONFIG, **settings})
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            norm = "LayerNorm" in key and key.endswith("weight")
            weight.copy_(0.3 * torch.randn_like(weight) + float(norm))
    model.save_pretrained(FOLDER / name)
    tokenizer.save_pretrained(FOLDER / name)
    model, labels = model.double(), labels_of(kind, inputs["padding_mask"])
    outputs = model(
        input_ids=torch.tensor(inputs["token_ids"]),
        attention_mask=torch.tensor(inputs["padding_mask"]),
        token_type_ids=torch.tensor(inputs["segment_ids"]),
        output_hidden_states=True,
        **{
            key: torch.tensor(value).double() if "PreTraining" in kind else torch.tensor(value)
            for key, value in labels.items()
        },
    )
    found = {**labels, "sequence_output": outputs.hidden_states[-1].detach().numpy()}
    if "logits" in outputs:
        found["logits"] = outputs.logits.detach().numpy()
    if "start_logits" in outputs:
        both = [outputs.start_logits, outputs.end_logits]
        found["span_logits"] = torch.stack(both, -1).detach().numpy()
    if labels:
        outputs.loss.backward()
        found["loss"] = outputs.loss.detach().numpy()
        found |= {
            f"gradients/{key}": weight.grad.numpy()
            for key, weight in model.named_parameters()
            if weight.grad is not None
        }
    return {f"{name}/{key}": value for key, value in found.items()}


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    letters = [chr(97 + number) for number in range(26)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *map("##{}".format, letters)]
    vocabulary = {token: number for number, token in enumerate(tokens[: CONFIG["vocab_size"]])}
    tokenizer = transformers.ElectraTokenizer(vocab=vocabulary, do_lower_case=True)
    inputs = make_inputs()
    arrays = {f"inputs/{key}": value for key, value in inputs.items()}
    for name in MODELS:
        arrays |= make(name, inputs, tokenizer)
    np.savez_compressed(
        FOLDER / "outputs.npz",
        **{
            name: array.astype("float32" if array.dtype.kind == "f" else "int32")
            for name, array in arrays.items()
        },
    )
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    (FOLDER / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
