"""Makes modernbert/: small ModernBERT models of `transformers`, and their outputs.

The weights are random; outputs are computed in float64. The tokenizer has the parts of that of
answerdotai/ModernBERT-base: NFC, byte-level BPE, runs of spaces as added tokens. Run with `torch`
and `transformers` installed:

    python tests/golden/make_modernbert_folders.py
"""

import json
import pathlib
import shutil

import numpy as np
import tokenizers
import torch
import transformers

FOLDER = pathlib.Path(__file__).with_name("modernbert")
SHAPE = {
    "hidden_size": 12,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 64,
    "local_attention": 6,
}
# Folder: class and further settings.
MODELS = {
    "encoder": ("ModernBertModel", {"global_attn_every_n_layers": 2, "hidden_activation": "gelu"}),
    "biased": (
        "ModernBertForMaskedLM",
        {"attention_bias": True, "mlp_bias": True, "classifier_bias": True, "norm_bias": True},
    ),
    "masked_lm": ("ModernBertForMaskedLM", {}),
    "untied": ("ModernBertForMaskedLM", {"tie_word_embeddings": False}),
    "classifier": (
        "ModernBertForSequenceClassification",
        {"id2label": {0: "bad", 1: "good", 2: "so so"}, "classifier_pooling": "mean"},
    ),
    "regression": ("ModernBertForSequenceClassification", {"num_labels": 1}),
    "tagger": (
        "ModernBertForTokenClassification",
        {"id2label": {0: "O", 1: "B-PER", 2: "I-PER"}, "classifier_dropout": 0.25},
    ),
    "reader": ("ModernBertForQuestionAnswering", {}),
}
SPECIAL = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}
TEXTS = [
    "The quick brown fox jumps over the lazy dog, 1,234 times.",
    "It's said that a stitch in time saves nine; isn't it?",
    "naïve café, nai\u0308ve cafe\u0301, Ångström",
    "def f(x):\n    if x:\n        return  x\n",
    "  two spaces,   three,    four and      six ",
    "\t\n \r\n",
    "",
    "a [MASK] b [UNK] [CLS]",
    "日本語のテキスト 😀👍🏽",
    "\u200bzero\xa0width",
]
MASKED = ["the cat [MASK] on the mat", "the[MASK] sat", "a  [MASK]  b", "[MASK] cat"]


def make_tokenizer():
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.normalizer = tokenizers.normalizers.NFC()
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    made.pre_tokenizer = byte_level(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.train_from_iterator(
        TEXTS * 2,
        tokenizers.trainers.BpeTrainer(
            vocab_size=290, initial_alphabet=sorted(byte_level.alphabet()), show_progress=False
        ),
    )
    spaces = [" " * count for count in (6, 4, 3, 2)]
    made.add_tokens([tokenizers.AddedToken(run, normalized=True) for run in spaces])
    made.add_special_tokens(
        [
            tokenizers.AddedToken(token, lstrip=token == "[MASK]", normalized=False)
            for token in SPECIAL.values()
        ]
    )
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    names = {f"{name}_token": token for name, token in SPECIAL.items()}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)


def make_inputs(rows):
    """Returns three sequences of 19, 7 and 12 real tokens, padded to 19."""
    random = np.random.default_rng(0)
    inputs = {
        "token_ids": random.integers(1, rows, (3, 19)),
        "padding_mask": np.ones((3, 19), int),
    }
    for row, length in enumerate((19, 7, 12)):
        inputs["padding_mask"][row, length:] = 0
    return inputs


def make(name, inputs, tokenizer):
    """Writes the folder of a model and returns its outputs."""
    kind, settings = MODELS[name]
    torch.manual_seed(len(name))
    ids = {"bos": "cls", "eos": "sep", "cls": "cls", "sep": "sep", "pad": "pad"}
    config = transformers.ModernBertConfig(
        vocab_size=len(tokenizer),
        **SHAPE,
        **settings,
        **{
            f"{own}_token_id": tokenizer.convert_tokens_to_ids(SPECIAL[n]) for own, n in ids.items()
        },
        attn_implementation="sdpa",
    )
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            weight.copy_(0.2 * torch.randn_like(weight) + float("norm.weight" in key))
    model.save_pretrained(FOLDER / name)
    tokenizer.save_pretrained(FOLDER / name)
    with torch.no_grad():
        outputs = model.double()(
            input_ids=torch.tensor(inputs["token_ids"]),
            attention_mask=torch.tensor(inputs["padding_mask"]),
        )
    names = {
        "last_hidden_state": "sequence_output",
        "logits": "mlm_logits" if "MaskedLM" in kind else "logits",
    }
    found = {
        f"{name}/{ours}": getattr(outputs, theirs).numpy().astype("float32")
        for theirs, ours in names.items()
        if getattr(outputs, theirs, None) is not None
    }
    if "start_logits" in outputs:
        spans = np.stack([outputs.start_logits, outputs.end_logits], -1)
        found[f"{name}/span_logits"] = spans.astype("float32")
    return found


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    tokenizer = make_tokenizer()
    inputs = make_inputs(len(tokenizer))
    arrays = {f"inputs/{name}": value.astype("int32") for name, value in inputs.items()}
    for name in MODELS:
        arrays |= make(name, inputs, tokenizer)
    np.savez_compressed(FOLDER / "outputs.npz", **arrays)
    tokenized = {
        # Special tokens in a text are ordinary text to us.
        "texts": [
            [text, row["input_ids"], row["offset_mapping"]]
            for text in TEXTS
            if "[MASK]" not in text
            for row in [tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)]
        ],
        "pairs": [[*TEXTS[:2], tokenizer(*TEXTS[:2])["input_ids"]]],
        "masked": [[text, tokenizer(text)["input_ids"]] for text in MASKED],
    }
    (FOLDER / "tokenized.json").write_text(json.dumps(tokenized) + "\n")
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    (FOLDER / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
