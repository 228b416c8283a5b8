"""CTranslate2, with random weights of transformers' Marian; skipped if it is not installed."""

import os
import tempfile

import ctranslate2
import numpy as np
import torch

from benchmarks.contenders.decoding.hugging_face import make_model
from benchmarks.interleaved import check_length, serve


def prepare(options):
    torch.manual_seed(0)
    folder = tempfile.mkdtemp()
    make_model(options).save_pretrained(f"{folder}/marian")
    tokens = [f"t{i}" for i in range(options["vocabulary"])]
    tokens[1:4], tokens[-1] = ("<s>", "</s>", "<unk>"), "<pad>"
    _Converter(f"{folder}/marian", tokens).convert(f"{folder}/ct2")
    translator = ctranslate2.Translator(
        f"{folder}/ct2", inter_threads=1, intra_threads=os.cpu_count(), compute_type="float32"
    )
    ids = np.random.default_rng(0).integers(
        4, options["vocabulary"] - 1, (options["rows"], options["source"])
    )
    texts = [[tokens[i] for i in row] for row in ids]

    def work(count):
        for _ in range(count):
            found = translator.translate_batch(
                texts,
                beam_size=options["beams"],
                min_decoding_length=options["length"],
                max_decoding_length=options["length"],
            )
            check_length(len(found[0].hypotheses[0]), options["length"])
        return {}

    return work


class _Converter(ctranslate2.converters.TransformersConverter):
    """Converter of a model without a tokenizer."""

    def __init__(self, path, tokens):
        super().__init__(path)
        self._tokens = tokens

    def load_tokenizer(self, *_, **__):
        return _Tokens(self._tokens)


class _Tokens:
    eos_token, unk_token, bos_token = "</s>", "<unk>", "<s>"

    def __init__(self, tokens):
        self._tokens = tokens

    def get_vocab(self):
        return {token: number for number, token in enumerate(self._tokens)}

    def convert_ids_to_tokens(self, ids):
        return self._tokens[ids] if isinstance(ids, int) else [self._tokens[i] for i in ids]


if __name__ == "__main__":
    serve(prepare)
