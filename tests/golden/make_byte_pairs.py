"""Makes byte_pairs.json: ids of openai/gpt-2's encoder.py with its vocabulary, and a part of that.

Code, vocabulary and running text are not ours to copy; give their paths. Needs `regex`:

    python tests/golden/make_byte_pairs.py encoder.py encoder.json vocab.bpe hf_vectors.json

Those used: openai/gpt-2@9b63575, src/encoder.py; graykode/gpt-2-Pytorch@401078f, GPT2/encoder.json
and GPT2/vocab.bpe, which are OpenAI's; and 289 texts with the ids of Hugging Face's `tokenizers`
0.23.3, which must be the same. Of these texts the first 38 are made up and kept whole. Of the
others, from public data sets, the words are kept that encoder.py cuts them into.

Of the merges those are kept whose pair lies side by side in some word at some step, joined or not.
With them alone every word comes to the same pieces as with all 50,000.
"""

import hashlib
import importlib.util
import json
import pathlib
import sys

MADE_UP = 38


class Asked(dict):
    """Ranks of merges that keep which of them were asked for."""

    def __init__(self, ranks):
        super().__init__(ranks)
        self.pairs = set()

    def get(self, pair, default=None):
        if pair in self:
            self.pairs.add(pair)
        return super().get(pair, default)


def load_encoder(code, vocabulary, merges):
    spec = importlib.util.spec_from_file_location("encoder", code)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pairs = [tuple(line.split()) for line in
             pathlib.Path(merges).read_text(encoding="utf-8").split("\n")[1:-1]]
    encoder = module.Encoder(json.loads(pathlib.Path(vocabulary).read_text()), pairs)
    encoder.bpe_ranks = Asked(encoder.bpe_ranks)
    return encoder


def main(code, vocabulary, merges, vectors):
    encoder = load_encoder(code, vocabulary, merges)
    rows = json.loads(pathlib.Path(vectors).read_text())["single"]
    texts = [row["text"] for row in rows]
    for row in rows:
        assert encoder.encode(row["text"]) == row["gpt2_ids"], row["text"]
    words = sorted({word for text in texts[MADE_UP:] for word in encoder.pat.findall(text)})
    assert all(encoder.pat.findall(word) == [word] for word in words)
    kept = sorted(encoder.bpe_ranks.pairs, key=encoder.bpe_ranks.__getitem__)
    pieces = {*encoder.byte_encoder.values(), *map("".join, kept), "<|endoftext|>"}
    found = {
        "sha256": {pathlib.Path(path).name: hashlib.sha256(
            pathlib.Path(path).read_bytes()).hexdigest() for path in (code, vocabulary, merges)},
        "pieces": {piece: encoder.encoder[piece]
                   for piece in sorted(pieces, key=encoder.encoder.__getitem__)},
        "merges": [" ".join(pair) for pair in kept],
        "texts": [[text, encoder.encode(text)] for text in texts[:MADE_UP]],
        "words": [[word, encoder.encode(word)] for word in words],
    }
    path = pathlib.Path(__file__).with_name("byte_pairs.json")
    content = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    path.write_text(content + "\n", encoding="utf-8")
    print(len(kept), "merges,", len(words), "words")


if __name__ == "__main__":
    main(*sys.argv[1:])
