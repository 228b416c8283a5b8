"""What runs where `transformers` is installed: python transformers_run.py FOLDER.

Finetunes a small classifier with PyTorch's AdamW; leaves its first weights in FOLDER/start, and
what it was trained on and its losses in FOLDER/run.npz.
"""

import pathlib
import sys

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

STEPS, ROWS, LENGTH, WORDS = 100, 16, 24, 40


def main(folder):
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    lengths = random.integers(2, LENGTH + 1, (STEPS, ROWS, 1))
    mask = np.arange(LENGTH) < lengths
    ids = np.where(mask, random.integers(5, WORDS, mask.shape), 0)
    labels = ids[..., 0] < WORDS // 2  # learnable
    # Learning rates rise, then fall to 0.
    at = np.arange(1, STEPS + 1) / (STEPS + 1)
    rates = (1e-3 * np.minimum(at / 0.1, (1 - at) / 0.9)).astype(np.float32)

    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=256,
            max_position_embeddings=32,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=2,
        )
    ).train()
    model.save_pretrained(folder / "start")
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
        eps=1e-6,
    )
    losses = []
    for step in range(STEPS):
        loss = model(
            input_ids=torch.tensor(ids[step]),
            labels=torch.tensor(labels[step]).long(),
            attention_mask=torch.tensor(mask[step]).long(),
        ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = float(rates[step])
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    np.savez(folder / "run.npz", ids=ids, mask=mask, labels=labels, rates=rates, losses=losses)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
