"""Finetuning in a PyTorch loop with transformers, as a whole command.

python -m benchmarks.contenders.released.hugging_face OPTIONS.json
"""

import json
import sys

import torch
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    get_linear_schedule_with_warmup,
)

from benchmarks.contenders.pytorch_optimizer import adamw


def main():
    with open(sys.argv[1]) as file:
        options = json.load(file)
    torch.manual_seed(options["seed"])
    tagging = options["task"] == "tagging"
    tokenizer = AutoTokenizer.from_pretrained(options["model"])
    splits = {name: read(options[name], *options["columns"]) for name in ("train", "test")}
    labels = [label for _, label in splits["train"]]
    names = sorted({name for row in labels for name in row} if tagging else set(labels))
    ids = {name: number for number, name in enumerate(names)}
    encode = encode_words if tagging else encode_text
    rows = {
        name: [encode(tokenizer, ids, options["length"], *row) for row in split]
        for name, split in splits.items()
    }
    collate = (DataCollatorForTokenClassification if tagging else DataCollatorWithPadding)(
        tokenizer
    )
    kind = AutoModelForTokenClassification if tagging else AutoModelForSequenceClassification
    model = kind.from_pretrained(
        options["model"],
        num_labels=len(names),
        hidden_dropout_prob=options["dropout"],
        attention_probs_dropout_prob=options["dropout"],
    )
    model.forward = torch.autocast("cpu", torch.bfloat16, enabled=options["bfloat16"])(
        model.forward
    )
    train(
        model, DataLoader(rows["train"], options["batch_size"], True, collate_fn=collate), options
    )
    model.eval()
    predicted = []
    with torch.no_grad():
        for batch in DataLoader(rows["test"], 64, collate_fn=collate):
            predicted += model(**batch).logits.argmax(-1).tolist()
    actual = [row["labels"] for row in rows["test"]]
    results = score_words(names, actual, predicted) if tagging else accuracy(actual, predicted)
    with open(options["results"], "w") as file:
        json.dump(results, file)


def read(path, *columns):
    with open(path, encoding="utf-8") as file:
        rows = map(json.loads, file)
        return [tuple(row[column] for column in columns) for row in rows]


def encode_text(tokenizer, ids, length, text, label):
    return {**tokenizer(text, truncation=True, max_length=length), "labels": ids[label]}


def encode_words(tokenizer, ids, length, words, tags):
    """The first subword of each word has its tag; unknown tags and other subwords are ignored."""
    found = tokenizer(words, is_split_into_words=True, truncation=True, max_length=length)
    labels, previous = [], None
    for word in found.word_ids():
        labels.append(-100 if word in (None, previous) else ids.get(tags[word], -100))
        previous = word
    return {**found, "labels": labels}


def train(model, batches, options):
    optimizer = adamw(model, options["learning_rate"])
    steps = int(len(batches) * options["epochs"])
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    model.train()
    done = 0
    while done < steps:
        for batch in batches:
            model(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            done += 1
            if done == steps:
                break


def accuracy(actual, predicted):
    return {"accuracy": sum(map(int.__eq__, actual, predicted)) / len(actual)}


def score_words(names, actual, predicted):
    rows = [
        [(names[a], names[b]) for a, b in zip(row, found, strict=False) if a >= 0]
        for row, found in zip(actual, predicted, strict=True)
    ]
    pairs = [pair for row in rows for pair in row]
    results = {"accuracy": sum(a == b for a, b in pairs) / len(pairs)}
    if any(name.startswith("B-") for name in names):
        from seqeval.metrics import f1_score

        sides = ([[pair[side] for pair in row] for row in rows] for side in (0, 1))
        results["f1"] = f1_score(*sides)
    return results


if __name__ == "__main__":
    main()
