"""A classifier of transformers, trained in a PyTorch loop with dynamic padding."""

import time

import numpy as np
import torch
from torch.utils.data import DataLoader
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizerFast,
    DataCollatorWithPadding,
)
from transformers.trainer_pt_utils import get_length_grouped_indices

from benchmarks.contenders.finetuning import epoch
from benchmarks.contenders.pytorch_optimizer import adamw
from benchmarks.interleaved import serve


def prepare(options):
    torch.manual_seed(0)
    tokenizer = BertTokenizerFast(vocab=options["vocabulary"])
    data = epoch.read_rows(options)

    def tokenize(split):
        texts, labels = data[split]
        found = tokenizer(texts, truncation=True, max_length=epoch.LENGTH)
        return [
            {"labels": int(label), **{name: found[name][row] for name in found}}
            for row, label in enumerate(labels)
        ]

    def load(rows, size, order):
        return DataLoader(rows, size, sampler=order, collate_fn=DataCollatorWithPadding(tokenizer))

    begin = time.perf_counter()
    rows = tokenize("train")
    seconds = time.perf_counter() - begin
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer),
            num_hidden_layers=epoch.LAYERS,
            hidden_size=epoch.HIDDEN_DIM,
            num_attention_heads=epoch.HEADS,
            intermediate_size=4 * epoch.HIDDEN_DIM,
            hidden_act="gelu_pytorch_tanh",
            num_labels=2,
        )
    ).train()
    optimizer = adamw(model, 1e-3, epoch.DECAY, epoch.EPSILON)
    rates, widths = epoch.learning_rates(len(rows)), []
    order = torch.randperm(len(rows)).tolist()
    if options["grouped"]:
        order = get_length_grouped_indices([len(row["input_ids"]) for row in rows], epoch.BATCH)
    batches = iter(load(rows, epoch.BATCH, order))

    def train(first, stop):
        for rate in rates[first:stop]:
            batch = next(batches)
            widths.append(batch["input_ids"].shape[1])
            model(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), epoch.CLIP)
            for group in optimizer.param_groups:
                group["lr"] = float(rate)
            optimizer.step()
            optimizer.zero_grad()

    @torch.no_grad()
    def validate():
        model.eval()
        rows = tokenize("validation")
        logits = [model(**batch).logits for batch in load(rows, 64, range(len(rows)))]
        return torch.cat(logits).numpy(), np.mean(widths)

    return epoch.work_of(data["validation"][1], len(rates), train, validate, seconds)


if __name__ == "__main__":
    serve(prepare)
