"""GPT-2 of transformers in PyTorch: a training step, or `generate`."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from benchmarks.contenders.gpt2.sizes import END, POSITIONS, VOCABULARY, random_ids
from benchmarks.contenders.pytorch_optimizer import adamw
from benchmarks.interleaved import check_length, serve


def prepare(options):
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=POSITIONS,
            n_layer=options["layers"],
            n_embd=options["hidden_dim"],
            n_head=options["heads"],
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=END,
            eos_token_id=END,
            pad_token_id=END,
        )
    )
    ids = torch.as_tensor(random_ids(options["rows"], options["length"])).long()
    return (_texts if options["tokens"] else _steps)(model, ids, options)


def _steps(model, ids, options):
    model.train()
    optimizer = adamw(model)

    def loss_of():
        return model(ids, labels=ids, use_cache=False).loss

    loss_of = torch.compile(loss_of, dynamic=False) if options["compile"] else loss_of

    def work(count):
        for _ in range(count):
            with torch.autocast("cpu", torch.bfloat16, enabled=options["bf16"]):
                loss = loss_of()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return {}

    return work


def _texts(model, ids, options):
    model = (model.bfloat16() if options["bf16"] else model).eval()
    how = {
        "num_beams": options["beams"],
        "do_sample": bool(options["top_k"]),
        **({"top_k": options["top_k"]} if options["top_k"] else {}),
        **({"cache_implementation": "static"} if options["static"] else {}),
    }
    if options["compile"]:
        model.forward = torch.compile(model.forward)

    def work(count):
        with torch.inference_mode():
            for _ in range(count):
                found = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    min_new_tokens=options["tokens"],
                    max_new_tokens=options["tokens"],
                    **how,
                )
                check_length(found.shape[1] - ids.shape[1], options["tokens"])
        return {}

    return work


if __name__ == "__main__":
    serve(prepare)
