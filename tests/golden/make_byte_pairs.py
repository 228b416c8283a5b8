"""Makes byte_pairs.json: ids by openai/gpt-2's encoder.py, and the part of its vocabulary they use.

The code, vocabulary and texts are not copied here; pass their paths. Requires `regex`:

    python tests/golden/make_byte_pairs.py encoder.py encoder.json vocab.bpe hf_vectors.json

Sources: openai/gpt-2@9b63575, src/encoder.py; graykode/gpt-2-Pytorch@401078f, GPT2/encoder.json
and GPT2/vocab.bpe, which are OpenAI's; and 289 texts with the ids of Hugging Face's `tokenizers`
0.23.3, which must agree. The first 38 texts are synthetic and stored in full. Of the others, from
public data sets, the words into which encoder.py splits them are stored.

Only those merges are stored whose pair is adjacent in some word at some step, merged or not. With
them alone, every word has the same tokens as with all 50,000.
"""

import hashlib
import importlib.util
import json
import pathlib
import sys

SYNTHETIC = 38


class RecordedRanks(dict):
    """Ranks of merges that record which were looked up."""

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
    pairs = [
        tuple(line.split())
        for line in pathlib.Path(merges).read_text(encoding="utf-8").split("\n")[1:-1]
    ]
    encoder = module.Encoder(json.loads(pathlib.Path(vocabulary).read_text()), pairs)
    encoder.bpe_ranks = RecordedRanks(encoder.bpe_ranks)
    return encoder


def main(code, vocabulary, merges, vectors):
    encoder = load_encoder(code, vocabulary, merges)
    rows = json.loads(pathlib.Path(vectors).read_text())["single"]
    texts = [row["text"] for row in rows]
    for row in rows:
        assert encoder.encode(row["text"]) == row["gpt2_ids"], row["text"]
    words = sorted({word for text in texts[SYNTHETIC:] for word in encoder.pat.findall(text)})
    assert all(encoder.pat.findall(word) == [word] for word in words)
    used = sorted(encoder.bpe_ranks.pairs, key=encoder.bpe_ranks.__getitem__)
    tokens = {*encoder.byte_encoder.values(), *map("".join, used), "<|endoftext|>"}
    found = {
        "sha256": {
            pathlib.Path(path).name: hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
            for path in (code, vocabulary, merges)
        },
        "pieces": {
            token: encoder.encoder[token]
            for token in sorted(tokens, key=encoder.encoder.__getitem__)
        },
        "merges": [" ".join(pair) for pair in used],
        "texts": [[text, encoder.encode(text)] for text in texts[:SYNTHETIC]],
        "words": [[word, encoder.encode(word)] for word in words],
    }
    path = pathlib.Path(__file__).with_name("byte_pairs.json")
    content = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    path.write_text(content + "\n", encoding="utf-8")
    print(len(used), "merges,", len(words), "words")


if __name__ == "__main__":
    main(*sys.argv[1:])
