"""`generate` of Marian in transformers."""

import torch
from transformers import MarianConfig, MarianMTModel

from benchmarks.interleaved import check_length, serve


def make_model(options):
    hidden_dim = options["hidden_dim"]
    return MarianMTModel(
        MarianConfig(
            vocab_size=options["vocabulary"],
            decoder_vocab_size=options["vocabulary"],
            d_model=hidden_dim,
            encoder_layers=options["layers"],
            decoder_layers=options["layers"],
            encoder_attention_heads=options["heads"],
            decoder_attention_heads=options["heads"],
            encoder_ffn_dim=4 * hidden_dim,
            decoder_ffn_dim=4 * hidden_dim,
            max_position_embeddings=1024,
            # As in Marian, the padding token has the last id and begins a translation.
            pad_token_id=options["vocabulary"] - 1,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=options["vocabulary"] - 1,
            forced_eos_token_id=None,
            scale_embedding=True,
        )
    ).eval()


def prepare(options):
    torch.manual_seed(0)
    model = make_model(options)
    model = model.bfloat16() if options["bf16"] else model
    ids = torch.randint(4, options["vocabulary"] - 1, (options["rows"], options["source"]))

    def work(count):
        with torch.inference_mode():
            for _ in range(count):
                found = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    num_beams=options["beams"],
                    do_sample=False,
                    min_new_tokens=options["length"],
                    max_new_tokens=options["length"],
                )
                check_length(found.shape[1] - 1, options["length"])
        return {}

    return work


if __name__ == "__main__":
    serve(prepare)
