"""Makes hugging_face/: small models of `transformers` with random weights, and their outputs.

Run with `torch` and `transformers` installed:

    python tests/golden/make_hugging_face.py
"""

import json
import pathlib
import shutil

import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).with_name("hugging_face")
SHAPE = {
    "vocab_size": 45,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}
PRENORM = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
# Folder: class, further settings, uncased, maximum file size.
MODELS = {
    "encoder": ("BertModel", {}, True, "1GB"),
    "pretraining": ("BertForPreTraining", {"hidden_act": "gelu_new"}, True, "1GB"),
    "masked_lm": ("BertForMaskedLM", {"layer_norm_eps": 1e-5}, False, "1GB"),
    "untied": ("BertForMaskedLM", {"tie_word_embeddings": False}, True, "4KB"),
    "classifier": (
        "BertForSequenceClassification",
        {
            "id2label": {0: "bad", 1: "good", 2: "so so"},
            "hidden_act": "relu",
            "classifier_dropout": 0.25,
        },
        True,
        "1GB",
    ),
    "regression": ("BertForSequenceClassification", {"num_labels": 1}, True, "1GB"),
    "reader": ("BertForQuestionAnswering", {}, True, "1GB"),
    "tagger": (
        "BertForTokenClassification",
        {"id2label": {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}},
        True,
        "1GB",
    ),
    "prenorm_encoder": ("RobertaPreLayerNormModel", PRENORM, True, "1GB"),
    "prenorm_masked_lm": (
        "RobertaPreLayerNormForMaskedLM",
        {**PRENORM, "hidden_act": "gelu_new"},
        True,
        "1GB",
    ),
    "prenorm_classifier": (
        "RobertaPreLayerNormForSequenceClassification",
        {**PRENORM, "id2label": {0: "bad", 1: "good", 2: "so so"}},
        True,
        "1GB",
    ),
    "prenorm_tagger": (
        "RobertaPreLayerNormForTokenClassification",
        {**PRENORM, "id2label": {0: "O", 1: "B-PER", 2: "I-PER"}},
        False,
        "1GB",
    ),
}
OUTPUTS = {
    "last_hidden_state": "sequence_output",
    "pooler_output": "pooled_output",
    "prediction_logits": "mlm_logits",
    "seq_relationship_logits": "nsp_logits",
}


def make_inputs():
    """Returns three sequences of 11, 7 and 9 real tokens in two segments, padded to 11."""
    random = np.random.default_rng(0)
    inputs = {
        "token_ids": random.integers(1, SHAPE["vocab_size"], (3, 11)),
        "segment_ids": np.zeros((3, 11), int),
        "padding_mask": np.ones((3, 11), int),
    }
    for row, (first, length) in enumerate([(6, 11), (3, 7), (5, 9)]):
        inputs["segment_ids"][row, first:length] = 1
        inputs["padding_mask"][row, length:] = 0
    return inputs


def make(name, inputs):
    """Writes the folder of a model and returns its outputs."""
    kind, settings, lowercase, max_shard_size = MODELS[name]
    torch.manual_seed(len(name))
    prenorm = kind.startswith("RobertaPreLayerNorm")
    config = transformers.RobertaPreLayerNormConfig if prenorm else transformers.BertConfig
    model = getattr(transformers, kind)(config(**SHAPE, **settings)).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            norm = "LayerNorm.weight" in key or "layer_norm.weight" in key
            weight.copy_(0.3 * torch.randn_like(weight) + float(norm))
            if prenorm and "position_embeddings" in key:
                weight[0] = 0  # of padding
        if name == "untied":  # two biases; version 5 uses the decoder's
            model.cls.predictions.bias.copy_(model.cls.predictions.decoder.bias)
    model.save_pretrained(FOLDER / name, max_shard_size=max_shard_size)
    letters = [chr(97 + number) for number in range(26)]
    tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *(f"##{letter}" for letter in letters),
    ][: SHAPE["vocab_size"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = transformers.BertTokenizer(vocab=vocabulary, do_lower_case=lowercase)
    tokenizer.save_pretrained(FOLDER / name)
    with torch.no_grad():
        outputs = model(
            input_ids=torch.tensor(inputs["token_ids"]),
            token_type_ids=torch.tensor(inputs["segment_ids"]),
            attention_mask=torch.tensor(inputs["padding_mask"]),
        )
    names = {**OUTPUTS, "logits": "mlm_logits" if "MaskedLM" in kind else "logits"}
    found = {
        f"{name}/{ours}": getattr(outputs, theirs).numpy()
        for theirs, ours in names.items()
        if getattr(outputs, theirs, None) is not None
    }
    if "start_logits" in outputs:
        found[f"{name}/span_logits"] = np.stack([outputs.start_logits, outputs.end_logits], -1)
    return found


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    inputs = make_inputs()
    arrays = {f"inputs/{name}": value.astype("int32") for name, value in inputs.items()}
    for name in MODELS:
        arrays |= make(name, inputs)
    np.savez_compressed(FOLDER / "outputs.npz", **arrays)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    (FOLDER / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
