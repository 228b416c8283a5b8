"""A training step of transformers in PyTorch, and its peak memory."""

import torch
from torch.nn import functional
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel

from benchmarks.contenders.pretraining.batch import synthetic_batch
from benchmarks.interleaved import serve
from benchmarks.process_memory import read_memory, reset_peak


def prepare(options):
    before = reset_peak()
    torch.manual_seed(0)
    model, loss_of = {"gpt2": _gpt2, "bert": _bert}[options["family"]](options)
    if options["remat"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

    def work(count):
        for _ in range(count):
            with torch.autocast("cpu", torch.bfloat16, enabled=options["bf16"]):
                loss = loss_of()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return {"peak": read_memory("VmHWM") - before}

    return work


def _gpt2(options):
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=options["vocabulary"],
            n_positions=options["length"],
            n_layer=options["layers"],
            n_embd=options["hidden_dim"],
            n_head=options["heads"],
            resid_pdrop=options["dropout"],
            embd_pdrop=options["dropout"],
            attn_pdrop=options["dropout"],
            use_cache=False,
        )
    ).train()
    ids = torch.randint(0, options["vocabulary"], (options["rows"], options["length"]))
    return model, lambda: model(ids, labels=ids).loss


def _bert(options):
    model = BertForPreTraining(
        BertConfig(
            vocab_size=options["vocabulary"],
            num_hidden_layers=options["layers"],
            hidden_size=options["hidden_dim"],
            num_attention_heads=options["heads"],
            intermediate_size=4 * options["hidden_dim"],
            hidden_act="gelu_pytorch_tanh",
            hidden_dropout_prob=options["dropout"],
            attention_probs_dropout_prob=options["dropout"],
        )
    ).train()
    batch = {
        name: torch.as_tensor(value)
        for name, value in synthetic_batch(
            options["rows"], options["length"], options["masked"]
        ).items()
    }
    positions = batch["mask_positions"].long()[:, :, None].expand(-1, -1, options["hidden_dim"])
    labels, following = batch["mask_ids"].long().flatten(), batch["next_sentence_label"].long()

    def loss_of():
        found = model.bert(
            batch["token_ids"],
            attention_mask=batch["padding_mask"],
            token_type_ids=batch["segment_ids"],
        )
        # Logits of masked tokens only, as in keras-attn.
        words, pairs = model.cls(found.last_hidden_state.gather(1, positions), found.pooler_output)
        return functional.cross_entropy(
            words.float().flatten(0, 1), labels
        ) + functional.cross_entropy(pairs.float(), following)

    return model, loss_of


if __name__ == "__main__":
    serve(prepare)
