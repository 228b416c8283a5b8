"""Makes encoders/: small RoBERTa and DistilBERT models of `transformers`, and their outputs.

The weights are random, in float32; outputs and gradients are computed in float64. RoBERTa's
tokenizer is trained on the texts below. Run with `torch` and `transformers` installed:

    python tests/golden/make_encoders.py
"""

import json
import pathlib
import random
import shutil

import numpy as np
import tokenizers
import torch
import transformers

FOLDER = pathlib.Path(__file__).with_name("encoders")
ROBERTA = {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 26,  # 24 positions
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
DISTILBERT = {
    "vocab_size": 45,
    "dim": 12,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 20,
    "max_position_embeddings": 24,
    "qa_dropout": 0.0,
}
CLASSES = {0: "bad", 1: "good", 2: "so so"}
TAGS = {0: "O", 1: "B-PER", 2: "I-PER"}
# Folder: class and further settings.
MODELS = {
    "roberta_encoder": ("RobertaModel", {"hidden_act": "gelu_new"}),
    "roberta_masked_lm": ("RobertaForMaskedLM", {"hidden_act": "relu"}),
    "roberta_untied": ("RobertaForMaskedLM", {"tie_word_embeddings": False}),
    "roberta_classifier": (
        "RobertaForSequenceClassification",
        {"id2label": CLASSES, "classifier_dropout": 0.25},
    ),
    "roberta_tagger": ("RobertaForTokenClassification", {"id2label": TAGS}),
    "roberta_reader": ("RobertaForQuestionAnswering", {}),
    "distilbert_encoder": ("DistilBertModel", {}),
    "distilbert_masked_lm": ("DistilBertForMaskedLM", {"activation": "relu"}),
    "distilbert_untied": ("DistilBertForMaskedLM", {"tie_word_embeddings": False}),
    "distilbert_classifier": (
        "DistilBertForSequenceClassification",
        {"id2label": CLASSES, "seq_classif_dropout": 0.25},
    ),
    "distilbert_tagger": ("DistilBertForTokenClassification", {"id2label": TAGS}),
    "distilbert_reader": ("DistilBertForQuestionAnswering", {}),
}
TRAINING_TEXTS = [
    "The quick brown fox jumps over the lazy dog, 1,234 times.",
    "It's said that a stitch in time saves nine; isn't it? They've said we'll see.",
    'Naïve café owners — in Zürich — pay £5.00 (or €6) for "good" beans.',
    "the cat sat on the mat and the rat sat on the hat",
    "The film was neither good nor bad; the actors were good, and the end was bad.",
]
TRICKY_TEXTS = [
    "",
    " ",
    "   ",
    "\n",
    "\t\n ",
    "a",
    " a",
    "  a",
    "a ",
    "a  ",
    "a  b",
    "a   b    c",
    "a\nb",
    "a\n\nb",
    "a \n b",
    "a\tb",
    "a \t b",
    "a\r\nb",
    "a\x0bb\x0cc",
    "\x00",
    "a\x00b",
    "\x01\x02\x1f\x7f",
    "a\x85b",
    "a\xa0b",
    "a \xa0 b",
    "a\u2028b\u2029c",
    "a\u3000b",
    "a\u200bb\u200dc",
    "\ufeffa",
    "a\u00adb",
    "naïve café",
    "nai\u0308ve cafe\u0301",
    "Ångström, Ærø, ß, ŒUVRE, İstanbul",
    "\u0301",
    " \u0301a",
    "ﬁ ﬂ ﬀ",
    "ＡＢＣ　１２３",
    "…—–‘’“”",
    "日本語のテキスト",
    "中文，标点。",
    "한국어 텍스트",
    "ภาษาไทย",
    "हिन्दी",
    "שלום עולם",
    "مرحبا بالعالم",
    "Привет, мир!",
    "Ελληνικά",
    "😀",
    "😀😀 😀",
    "👩‍👩‍👧‍👦 family",
    "🇩🇪🇫🇷",
    "👍🏽!",
    "❤️",
    "a😀b",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "\U0010fffe",
    "\ue000",
    "\ufffd",
    "it's they're we've I'll I'm you'd don't",
    "IT'S 'S 's' 'tis",
    "' 's ''s",
    "1234567890",
    "1,234.56 €7.89 £0.1",
    "½ ² Ⅷ ٣ ३",
    "e-mail@example.com http://a.b/c?d=e&f=g#h",
    "C++ C# f(x)=y[0]{z}",
    "a.b,c;d:e!f?g",
    "...... ,,,, !!!",
    "_snake_case_ CamelCase kebab-case",
    "\\n \\t \\\\",
    "\"quotes\" 'single' `ticks`",
    "<html><b>bold</b></html>",
    "< mask > [MASK] <|endoftext|>",
    "a" * 300,
    "ab " * 60,
    " " * 50 + "a" + " " * 50,
    "\n" * 20 + "a",
    "x" * 64 + " " + "y" * 64,
]
PIECES = [
    "the", "cat", "good", "film", "The", "é", "ü", "ß", "日", "本", "😀", "👍🏽", "1", "23", "'s",
    "'ll", ".", ",", "!", "—", "(", ")", " ", " ", " ", "  ", "\n", "\t", "\xa0", "\u2003",
    "\u0301", "\x07", "Ω", "क", "ि", "ا", "ﬁ", "½", "_", "-", "'",
]  # fmt: skip
PAIRS = [
    ("the cat sat", "on the mat"),
    ("It's said", "that nine owners pay in time"),
    ("a", "fox jumps over the lazy dog and the rat"),
    ("", "b"),
    ("naïve café 😀", " 日本"),
]
MASKED = [
    "the cat <mask> on the mat",
    "the<mask> sat",
    "a  <mask>  b",
    "<mask> cat",
    "the\n<mask>.",
    "(<mask>) <mask>",
]


def make_texts():
    """Returns 289 texts: the tricky ones, and random sequences of pieces."""
    draw = random.Random(0)
    texts = [*TRAINING_TEXTS, *TRICKY_TEXTS]
    while len(texts) < 289:
        texts.append("".join(draw.choices(PIECES, k=draw.randint(1, 24))))
    return texts


def train_tokenizer():
    """Returns a tokenizer with the special tokens of RoBERTa at their places."""
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    trained.pre_tokenizer = byte_level(add_prefix_space=False)
    trained.train_from_iterator(
        TRAINING_TEXTS * 2,
        tokenizers.trainers.BpeTrainer(
            vocab_size=330,
            special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
            initial_alphabet=sorted(byte_level.alphabet()),
            show_progress=False,
        ),
    )
    model = json.loads(trained.to_str())["model"]
    vocabulary = {**model["vocab"], "<mask>": len(model["vocab"])}
    merges = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair)
              for pair in model["merges"]]  # fmt: skip
    # As in the released files, a space before <mask> belongs to it.
    mask = tokenizers.AddedToken("<mask>", lstrip=True, normalized=False, special=True)
    return transformers.RobertaTokenizer(vocab=vocabulary, merges=merges, mask_token=mask)


def make_tokenized(tokenizer):
    """Returns ids and offsets of texts, of pairs, of truncated texts, and of masked ones."""
    found = {"texts": [], "pairs": [], "truncated": [], "masked": []}
    for text in make_texts():
        row = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        found["texts"].append([text, row["input_ids"], row["offset_mapping"]])
    for pair in PAIRS:
        found["pairs"].append([*pair, tokenizer(*pair)["input_ids"]])
    for text in make_texts()[:8]:
        row = tokenizer(text, truncation=True, max_length=9)
        found["truncated"].append([text, row["input_ids"]])
    for text in MASKED:
        found["masked"].append([text, tokenizer(text)["input_ids"]])
    return found


def make_inputs(rows, pad, first=None):
    """Returns three sequences of 11, 7 and 9 real tokens, padded to 11."""
    draw = np.random.default_rng(0)
    mask = (np.arange(11) < np.array([11, 7, 9])[:, None]).astype(int)
    ids = np.where(mask, draw.integers(5, rows, (3, 11)), pad)
    if first is not None:
        ids[:, 0] = first
    return {"token_ids": ids, "padding_mask": mask}


def labels_of(kind, inputs):
    """Returns the labels, and for question answering those of the end."""
    draw = np.random.default_rng(1)
    if "MaskedLM" in kind:
        chosen = (draw.random((3, 11)) < 0.4) & (inputs["padding_mask"] > 0)
        return {"labels": np.where(chosen, draw.integers(5, 40, (3, 11)), -100)}
    if "Sequence" in kind:
        return {"labels": np.array([2, 0, 1])}
    if "Token" in kind:
        tags = draw.integers(0, 3, (3, 11))
        return {"labels": np.where(inputs["padding_mask"] > 0, tags, -100)}
    if "Question" in kind:
        return {"start_positions": np.array([0, 3, 2]), "end_positions": np.array([0, 5, 4])}
    return {}


def make(name, inputs, tokenizer):
    """Writes the folder of a model and returns its inputs, outputs and gradients."""
    kind, settings = MODELS[name]
    torch.manual_seed(len(name))
    roberta = name.startswith("roberta")
    if roberta:
        rows = len(tokenizer) + (3 if "masked_lm" in name else 0)  # a padded vocabulary
        ends = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
        config = transformers.RobertaConfig(**ROBERTA, vocab_size=rows, **ends, **settings)
    else:
        config = transformers.DistilBertConfig(**DISTILBERT, **settings)
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            norm = ("LayerNorm" in key or "layer_norm" in key) and key.endswith("weight")
            weight.copy_(0.3 * torch.randn_like(weight) + float(norm))
            if roberta and "position_embeddings" in key:
                weight[:2] = 0  # positions begin after the padding token
        if name == "roberta_untied":  # two biases; version 5 uses the decoder's
            model.lm_head.bias.copy_(model.lm_head.decoder.bias)
    model.save_pretrained(FOLDER / name)
    tokenizer.save_pretrained(FOLDER / name)
    model, labels = model.double(), labels_of(kind, inputs)
    outputs = model(
        input_ids=torch.tensor(inputs["token_ids"]),
        attention_mask=torch.tensor(inputs["padding_mask"]),
        output_hidden_states=True,
        **{key: torch.tensor(value) for key, value in labels.items()},
    )
    found = {**labels, "sequence_output": outputs.hidden_states[-1].detach().numpy()}
    if "pooler_output" in outputs:
        found["pooled_output"] = outputs.pooler_output.detach().numpy()
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


def word_piece_tokenizer():
    letters = [chr(97 + number) for number in range(26)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *map("##{}".format, letters)]
    vocabulary = {token: number for number, token in enumerate(tokens[: DISTILBERT["vocab_size"]])}
    return transformers.DistilBertTokenizer(vocab=vocabulary, do_lower_case=True)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    byte_pairs, word_pieces = train_tokenizer(), word_piece_tokenizer()
    inputs = {
        "roberta": make_inputs(len(byte_pairs), 1, 0),
        "distilbert": make_inputs(DISTILBERT["vocab_size"], 0),
    }
    arrays = {
        f"inputs/{family}/{key}": value
        for family, own in inputs.items()
        for key, value in own.items()
    }
    for name in MODELS:
        family = name.split("_")[0]
        tokenizer = byte_pairs if family == "roberta" else word_pieces
        arrays |= make(name, inputs[family], tokenizer)
    np.savez_compressed(
        FOLDER / "outputs.npz",
        **{
            name: array.astype("float32" if array.dtype.kind == "f" else "int32")
            for name, array in arrays.items()
        },
    )
    tokenized = make_tokenized(byte_pairs)
    (FOLDER / "tokenized.json").write_text(json.dumps(tokenized) + "\n")
    versions = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
    }
    (FOLDER / "versions.json").write_text(json.dumps(versions) + "\n")


if __name__ == "__main__":
    main()
