"""Masked examples with Hugging Face: `datasets`, and the masked-LM collator of transformers.

Examples are text split every 128 tokens, as in its script `run_mlm`: no pairs, no padding.
"""

import os
import tempfile
from itertools import chain

import datasets
import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler
from transformers import BertTokenizerFast, DataCollatorForLanguageModeling

from benchmarks.interleaved import serve


def prepare(options):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # parallelism is by processes
    datasets.disable_progress_bars()
    tokenizer = BertTokenizerFast(vocab=options["vocabulary"])
    collator = DataCollatorForLanguageModeling(tokenizer)
    length, rows = options["length"], options["rows"]
    columns = datasets.Features(
        {
            name: datasets.List(datasets.Value(dtype), length=length)
            for name, dtype in (("input_ids", "int32"), ("special_tokens_mask", "int8"))
        }
    )

    def split(batch):
        found = tokenizer(
            [line for line in batch["text"] if line],
            return_token_type_ids=False,
            return_attention_mask=False,
            return_special_tokens_mask=True,
        )
        flat = {name: np.fromiter(chain.from_iterable(found[name]), np.int32) for name in columns}
        whole = len(flat["input_ids"]) // length * length
        return {name: list(ids[:whole].reshape(-1, length)) for name, ids in flat.items()}

    def tokenize(cache):
        lines = datasets.load_dataset(
            "text", data_files=options["text"], split="train", cache_dir=cache
        )
        return lines.map(
            split,
            batched=True,
            num_proc=options["processes"],
            remove_columns=lines.column_names,
            features=columns,
        )

    def mask(batch):
        """Applies the collator's masking to a batch that is one tensor already."""
        ids, labels = collator.torch_mask_tokens(
            batch["input_ids"].long(), special_tokens_mask=batch["special_tokens_mask"].bool()
        )
        return {"input_ids": ids, "labels": labels, "attention_mask": torch.ones_like(ids)}

    def load(data):
        data = data.with_format("torch")
        workers = {
            "num_workers": options["processes"] if options["workers"] else 0,
            "persistent_workers": options["workers"],
        }
        if not options["whole"]:
            return DataLoader(data, rows, shuffle=True, collate_fn=collator, **workers)
        sampler = BatchSampler(RandomSampler(data), rows, drop_last=False)
        return DataLoader(data, None, sampler=sampler, collate_fn=mask, **workers)

    def text_to_batches(count):
        made = 0
        for _ in range(count):
            with tempfile.TemporaryDirectory(dir=options["folder"]) as cache:
                made += sum(len(batch["input_ids"]) for batch in load(tokenize(cache)))
        return {"rows": made / count}

    if options["what"] == "text":
        return text_to_batches
    folder = os.path.join(options["folder"], "ids")
    if not os.path.exists(folder):  # exists if another mode was tried
        tokenize(os.path.join(options["folder"], "cache")).save_to_disk(folder)
    loader = load(datasets.load_from_disk(folder))
    batches = iter(())

    def ids_to_batches(count):
        nonlocal batches
        made = 0
        for _ in range(count):
            batch = next(batches, None)
            if batch is None:  # next epoch
                batches = iter(loader)
                batch = next(batches)
            made += len(batch["input_ids"])
        return {"rows": made / count}

    return ids_to_batches


if __name__ == "__main__":
    serve(prepare)
