"""Makes language_models/: small GPT-2 and XLNet models of `transformers`, and their outputs.

The weights are random. Run with `torch`, `transformers`, `sentencepiece` and `protobuf` installed:

    python tests/golden/make_language_models.py
"""

import io
import json
import pathlib
import shutil

import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers

FOLDER = pathlib.Path(__file__).with_name("language_models")
# Training texts of the tokenizers, and inputs of the models.
TEXTS = [
    "The quick brown fox jumps over the lazy dog, 1,234 times.",
    "It's said that a stitch in time saves nine; isn't it?",
    'Naïve café owners — in Zürich — pay £5.00 (or €6) for "good" beans.',
    "the cat sat on the mat and the rat sat on the hat",
]
PAIRS = [
    ("the cat sat", "on the mat"),
    ("It's said", "that nine owners pay in time"),
    ("a", "fox jumps over the lazy dog and the rat"),
]
SPECIAL_TOKENS = ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
SYMBOLS = [".", "(", ")", '"', "-", "–", "£", "€"]


def randomize(model, seed):
    """Sets random weights, large enough for a wrong computation to show."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            gamma = (".ln_" in name or "layer_norm" in name) and name.endswith("weight")
            weight.copy_(0.3 * torch.randn_like(weight) + float(gamma))
    return model.eval()


def make_byte_pairs(folder):
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train_from_iterator(TEXTS, vocab_size=290, special_tokens=[])
    trained.save_model(str(folder))
    vocabulary = json.loads((folder / "vocab.json").read_text())
    vocabulary["<|endoftext|>"] = len(vocabulary)
    merges = [
        tuple(line.split(" "))
        for line in (folder / "merges.txt").read_text().split("\n")[1:]
        if line
    ]
    return transformers.GPT2Tokenizer(vocab=vocabulary, merges=merges)


def make_gpt2():
    """A language model whose padded vocabulary is larger than its tokenizer's."""
    folder = FOLDER / "gpt2"
    folder.mkdir()
    tokenizer = make_byte_pairs(folder)
    (folder / "vocab.json").unlink()
    (folder / "merges.txt").unlink()
    tokenizer.save_pretrained(folder)
    rows = len(tokenizer) + 3
    model = randomize(
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=rows,
                n_positions=64,
                n_embd=12,
                n_layer=3,
                n_head=2,
                n_inner=20,
                bos_token_id=len(tokenizer) - 1,
                eos_token_id=len(tokenizer) - 1,
            )
        ),
        1,
    )
    model.save_pretrained(folder)
    found = {}
    for number, text in enumerate(TEXTS):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            outputs = model(input_ids=ids, labels=ids)
        found |= {
            f"gpt2/{number}/ids": ids,
            f"gpt2/{number}/logits": outputs.logits,
            f"gpt2/{number}/loss": outputs.loss,
        }
    return found | make_gpt2_classifier(tokenizer)


def make_gpt2_classifier(tokenizer):
    """A classifier of texts and of concatenated pairs of texts."""
    end = len(tokenizer) - 1
    model = randomize(
        transformers.GPT2ForSequenceClassification(
            transformers.GPT2Config(
                vocab_size=len(tokenizer),
                n_positions=64,
                n_embd=12,
                n_layer=2,
                n_head=3,
                n_inner=20,
                bos_token_id=end,
                eos_token_id=end,
                pad_token_id=end,
                id2label={0: "bad", 1: "good", 2: "so so"},
            )
        ),
        4,
    )
    folder = FOLDER / "gpt2_classifier"
    model.save_pretrained(folder)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(folder)
    found = {}
    for name, texts in (("texts", [TEXTS]), ("pairs", map(list, zip(*PAIRS, strict=True)))):
        rows = tokenizer(*texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            found[f"gpt2_classifier/{name}/logits"] = model(**rows).logits
    return found


def train_sentencepiece():
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 4),
        model_writer=written,
        vocab_size=90,
        hard_vocab_limit=False,
        model_type="unigram",
        control_symbols=SPECIAL_TOKENS,
        user_defined_symbols=SYMBOLS,
        minloglevel=2,
        normalization_rule_name="identity",
    )
    return written.getvalue()


def make_xlnets():
    """A pretrained model, one with another activation and memory, and a classifier of pairs."""
    found = {}
    path = FOLDER / "spiece.model"
    path.write_bytes(train_sentencepiece())
    tokenizer = transformers.XLNetTokenizer.from_pretrained(FOLDER)
    rows = len(tokenizer)
    shape = {"vocab_size": rows, "d_model": 12, "n_layer": 2, "n_head": 3, "d_inner": 20}
    models = {
        "xlnet": transformers.XLNetLMHeadModel(transformers.XLNetConfig(**shape)),
        "xlnet_memory": transformers.XLNetLMHeadModel(
            transformers.XLNetConfig(
                **shape, ff_activation="gelu_new", mem_len=4, reuse_len=3, clamp_len=5
            )
        ),
        "xlnet_classifier": transformers.XLNetForSequenceClassification(
            transformers.XLNetConfig(
                **shape,
                mem_len=None,
                summary_last_dropout=0.2,
                id2label={0: "bad", 1: "good", 2: "so so"},
            )
        ),
    }
    for number, (name, model) in enumerate(models.items()):
        folder = FOLDER / name
        randomize(model, number).save_pretrained(folder)
        if name == "xlnet":
            tokenizer.save_pretrained(folder)  # as tokenizer.json
        else:
            shutil.copy(path, folder)
        # Version 5 omits segment ids by default; the authors' code never does.
        rows = tokenizer(
            *map(list, zip(*PAIRS, strict=True)),
            padding=True,
            return_tensors="pt",
            return_token_type_ids=True,
        )
        with torch.no_grad():
            logits = model(**rows).logits
        found |= {
            f"{name}/logits": logits,
            **{f"{name}/{key}": rows[key] for key in ("input_ids", "attention_mask")},
        }
    path.unlink()
    return found


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    arrays = {}
    for name, value in {**make_gpt2(), **make_xlnets()}.items():
        value = value.numpy()
        arrays[name] = value.astype("float32" if value.dtype.kind == "f" else "int32")
    np.savez_compressed(FOLDER / "outputs.npz", **arrays)
    versions = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "sentencepiece": sentencepiece.__version__,
    }
    (FOLDER / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
