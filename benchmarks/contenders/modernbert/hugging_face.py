"""A masked-LM training step of ModernBERT in transformers, with logits of masked tokens only."""

import torch
from torch.nn import functional
from transformers import ModernBertConfig, ModernBertForMaskedLM

from benchmarks.contenders.pretraining.batch import VOCABULARY, synthetic_batch
from benchmarks.contenders.pytorch_optimizer import adamw
from benchmarks.interleaved import serve
from benchmarks.process_memory import read_memory, reset_peak


def prepare(options):
    before = reset_peak()
    torch.manual_seed(0)
    layers, hidden_dim, heads, intermediate_dim = options["shape"]
    special = {f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")}
    config = ModernBertConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        hidden_size=hidden_dim,
        num_attention_heads=heads,
        intermediate_size=intermediate_dim,
        attn_implementation="sdpa",
        **special,
    )
    model = ModernBertForMaskedLM(config).train()
    optimizer = adamw(model)
    batch = {
        name: torch.as_tensor(value)
        for name, value in synthetic_batch(
            options["rows"], options["length"], options["masked"]
        ).items()
    }
    positions = batch["mask_positions"].long()[:, :, None].expand(-1, -1, hidden_dim)
    labels = batch["mask_ids"].long().flatten()

    def loss_of():
        hidden = model.model(batch["token_ids"], attention_mask=batch["padding_mask"])[0]
        logits = model.decoder(model.head(hidden.gather(1, positions)))
        return functional.cross_entropy(logits.float().flatten(0, 1), labels)

    loss_of = torch.compile(loss_of, dynamic=False) if options["compile"] else loss_of

    def work(count):
        for _ in range(count):
            with torch.autocast("cpu", torch.bfloat16, enabled=options["bf16"]):
                loss = loss_of()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.item(), "memory": read_memory("VmHWM") - before}

    return work


if __name__ == "__main__":
    serve(prepare)
