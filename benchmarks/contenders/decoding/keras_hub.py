"""KerasHub's samplers with its BART, an encoder-decoder with a key-value cache."""

import keras
import keras_hub
import numpy as np

from benchmarks.interleaved import check_length, serve

BEGIN = 1


def prepare(options):
    hidden_dim, length, rows = options["hidden_dim"], options["length"], options["rows"]
    if options["bf16"]:
        keras.config.set_dtype_policy("bfloat16")
    backbone = keras_hub.models.BartBackbone(
        vocabulary_size=options["vocabulary"],
        num_layers=options["layers"],
        num_heads=options["heads"],
        hidden_dim=hidden_dim,
        intermediate_dim=4 * hidden_dim,
        dropout=0.0,
        max_sequence_length=1024,
    )
    model = keras_hub.models.BartSeq2SeqLM(backbone=backbone, preprocessor=None)
    sampler = (
        "greedy"
        if options["beams"] == 1
        else keras_hub.samplers.BeamSampler(num_beams=options["beams"])
    )
    model.compile(sampler=sampler, jit_compile=options["xla"])
    target = np.zeros((rows, length + 1), "int32")
    target[:, 0] = BEGIN
    inputs = {
        "encoder_token_ids": np.random.default_rng(0)
        .integers(4, options["vocabulary"], (rows, options["source"]))
        .astype("int32"),
        "encoder_padding_mask": np.ones((rows, options["source"]), "bool"),
        "decoder_token_ids": target,
        "decoder_padding_mask": np.arange(length + 1)[None].repeat(rows, 0) < 1,
    }

    def work(count):
        for _ in range(count):
            found = model.generate(inputs, stop_token_ids=None)
            check_length(found["decoder_token_ids"].shape[1] - 1, length)
        return {}

    return work


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    serve(prepare)
