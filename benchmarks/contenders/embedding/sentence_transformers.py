"""Training on pairs in a loop with sentence-transformers.

python -m benchmarks.contenders.embedding.sentence_transformers OPTIONS.json
"""

import json
import sys
import time

import torch
from sentence_transformers import SentenceTransformer, losses
from torch.utils.data import DataLoader

from benchmarks.contenders.pytorch_optimizer import adamw


def main():
    with open(sys.argv[1]) as file:
        options = json.load(file)
    torch.manual_seed(options["seed"])
    model = SentenceTransformer(options["model"], device="cpu")
    model.max_seq_length = options["length"]
    model.train(options["dropout"] > 0)
    pairs, test = (read(options[name]) for name in ("train", "test"))
    batches = DataLoader(
        pairs, options["batch_size"], shuffle=True, drop_last=True, collate_fn=list
    )
    result = train(model, batches, options)
    model.eval()
    sources, targets = (
        model.encode(texts, convert_to_tensor=True) for texts in zip(*test, strict=True)
    )
    similarities = torch.nn.functional.normalize(sources) @ torch.nn.functional.normalize(targets).T
    own = similarities.diagonal()[:, None]
    result["mrr"] = (1 / (similarities >= own).sum(1)).mean().item()
    with open(options["results"], "w") as file:
        json.dump(result, file)


def read(path):
    with open(path, encoding="utf-8") as file:
        return [(row["source"], row["target"]) for row in map(json.loads, file)]


def train(model, batches, options):
    """Returns the loss of each step, and the seconds from the first step to its end."""
    optimizer = adamw(model, options["learning_rate"], epsilon=1e-6)
    loss_of = losses.MultipleNegativesRankingLoss(model, scale=1 / options["temperature"])
    steps, warmup = options["steps"], options["warmup_fraction"]

    def factor(step):
        progress = (step + 1) / (steps + 1)
        return min(progress / warmup, (1 - progress) / (1 - warmup))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    found = {"loss": [], "seconds": []}
    begin = time.perf_counter()
    while len(found["loss"]) < steps:
        for pairs in batches:
            features = [model.tokenize(list(texts)) for texts in zip(*pairs, strict=True)]
            with torch.autocast("cpu", torch.bfloat16, enabled=options["bfloat16"]):
                loss = loss_of(features, None)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            found["loss"].append(loss.item())
            found["seconds"].append(time.perf_counter() - begin)
            if len(found["loss"]) == steps:
                break
    return found


if __name__ == "__main__":
    main()
