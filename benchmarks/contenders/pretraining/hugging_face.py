"""A training step of transformers in PyTorch.

`BertForPreTraining` computes the logits of every token; here, as in every measured library, only
those of masked tokens are computed.
"""

import torch
from torch.nn import functional
from transformers import BertConfig, BertForPreTraining

from benchmarks.contenders.pretraining.batch import VOCABULARY, synthetic_batch
from benchmarks.contenders.pytorch_optimizer import adamw
from benchmarks.interleaved import serve


def prepare(options):
    torch.manual_seed(0)
    device = options.get("device", "cpu")
    torch.set_default_device(device)
    model = BertForPreTraining(
        BertConfig(
            vocab_size=VOCABULARY,
            num_hidden_layers=options["layers"],
            hidden_size=options["hidden_dim"],
            num_attention_heads=options["heads"],
            intermediate_size=4 * options["hidden_dim"],
            hidden_act="gelu_pytorch_tanh",
            hidden_dropout_prob=options["dropout"],
            attention_probs_dropout_prob=options["dropout"],
        )
    ).train()
    optimizer = adamw(model)
    batch = {
        name: torch.as_tensor(value)
        for name, value in synthetic_batch(
            options["rows"], options["length"], options["masked"]
        ).items()
    }
    positions = batch["mask_positions"].long()[:, :, None].expand(-1, -1, options["hidden_dim"])
    labels, weights = batch["mask_ids"].long().flatten(), batch["mask_weights"].flatten()
    following = batch["next_sentence_label"].long()

    def loss_of():
        found = model.bert(
            batch["token_ids"],
            attention_mask=batch["padding_mask"],
            token_type_ids=batch["segment_ids"],
        )
        hidden = found.last_hidden_state.gather(1, positions)
        words, pairs = model.cls(hidden, found.pooler_output)
        errors = functional.cross_entropy(words.float().flatten(0, 1), labels, reduction="none")
        return (errors * weights).sum() / weights.sum() + functional.cross_entropy(
            pairs.float(), following
        )

    loss_of = torch.compile(loss_of, dynamic=False) if options["compile"] else loss_of

    def work(count):
        for _ in range(count):
            with torch.autocast(device, torch.bfloat16, enabled=options["bf16"]):
                loss = loss_of()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if device == "cuda":
            torch.cuda.synchronize()
        return {"loss": loss.item()}

    return work


if __name__ == "__main__":
    serve(prepare)
