"""Tokenizers in XLNet folders of `transformers`: tokenizer.json and spiece.model."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from keras_attn import convert
from keras_attn.errors import UserError
from keras_attn.text.sentence_pieces import SentencePieceTokenizer

MODELS = pathlib.Path(__file__).parents[2] / "golden" / "language_models"
# Both have the same vocabulary, one in tokenizer.json, the other in spiece.model.
MADE, PIECES = MODELS / "xlnet", MODELS / "xlnet_classifier" / "spiece.model"
TEXTS = [
    "The quick brown fox jumps over the lazy dog, 1,234 times.",
    "``Naïve'' café — £5.00 (3.14)",
    "  it's\tsaid\n that  ",
    "",
    "🙂 e<sep>s -–-",
    "fi ﬁ ½ Å",
]


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(MADE, tmp_path / "copy")
    return tmp_path / "copy"


def change(folder, edit, name="tokenizer.json"):
    found = json.loads((folder / name).read_text())
    edit(found)
    (folder / name).write_text(json.dumps(found))


def test_a_tokenizer_from_tokenizer_json_tokenizes_as_sentencepiece(folder):
    made, wanted = convert.read(folder), SentencePieceTokenizer.read(PIECES)
    assert made.lowercase is False and made.tokenizer.vocabulary == wanted.vocabulary
    assert made.tokenizer.special_ids == wanted.special_ids
    # XLNet's <eop> may occur in a text, as a user-defined symbol of SentencePiece.
    ids, _ = made.tokenizer.encode(["a<eop>b"])
    assert made.tokenizer.eop_id in ids
    ids, ends = made.tokenizer.encode(TEXTS)
    expected, borders = wanted.encode(TEXTS)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(ends, borders)
    rows = np.split(ids, ends[:-1])
    assert made.tokenizer.decode(rows) == wanted.decode(rows)


def test_the_precompiled_character_map_is_used(folder, tmp_path):
    import sentencepiece
    from tokenizers import normalizers

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_prefix=str(tmp_path / "other"),
        vocab_size=60,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
    )
    model = (tmp_path / "other.model").read_bytes()
    charsmap = model[model.index(b"nmt_nfkc") + 8 :]
    assert charsmap[0] == 0x12  # its field, with a length of three bytes
    size = sum((byte & 127) << 7 * n for n, byte in enumerate(charsmap[1:4]))
    step = json.loads(normalizers.Precompiled(charsmap[4 : 4 + size]).__getstate__())
    plain = convert.read(folder).tokenizer
    change(folder, lambda found: found["normalizer"]["normalizers"].append(step))
    made = convert.read(folder).tokenizer
    assert made.sha256 != plain.sha256
    # It maps a zero-width space to a space.
    for tokenizer, same in ((made, True), (plain, False)):
        ids, (end, _) = tokenizer.encode(["the\u200bcat", "the cat"])
        assert np.array_equal(ids[:end], ids[end:]) == same


def test_scores_of_old_files_are_restored(folder):
    def number(found):  # a type that the fixture lacks
        found["model"]["vocab"][-1] = ["1,", -3.5]

    change(folder, number)
    plain = convert.read(folder).tokenizer
    change(folder, lambda found: found["model"]["vocab"].__setitem__(-1, ["1,", -103.5]))
    assert convert.read(folder).tokenizer.model == plain.model


def test_lowercase_is_read_from_the_file(folder):
    change(
        folder, lambda found: found["normalizer"]["normalizers"].insert(4, {"type": "Lowercase"})
    )
    with pytest.raises(UserError, match="Conflicting values of lowercase. Received: True.*False"):
        convert.read(folder)
    (folder / "tokenizer_config.json").unlink()
    assert convert.read(folder).lowercase and convert.read(folder).tokenizer.lowercase


def test_both_files_must_have_the_same_vocabulary(folder):
    shutil.copy(PIECES, folder)
    assert convert.read(folder).tokenizer.model == PIECES.read_bytes()
    change(folder, lambda found: found["model"]["vocab"].reverse())
    change(folder, lambda found: found.update(added_tokens=[]))
    with pytest.raises(UserError, match="must contain the same vocabulary"):
        convert.read(folder)


@pytest.mark.parametrize(
    "edit, message",
    [
        (lambda found: found["model"].update(type="BPE"), "model.type='BPE'"),
        (lambda found: found.update(model=3), "model.type=None"),
        (lambda found: found["model"].update(byte_fallback=True), "model.byte_fallback"),
        (lambda found: found.update(normalizer=None), "normalizer="),
        (lambda found: found["normalizer"]["normalizers"].pop(3), "normalizer="),
        (lambda found: found["pre_tokenizer"]["pretokenizers"].pop(1), "pre_tokenizer="),
        (
            lambda found: found["pre_tokenizer"]["pretokenizers"][1].update(prepend_scheme="never"),
            "pre_tokenizer=",
        ),
        (lambda found: found["added_tokens"].append({"id": 999, "content": "<new>"}), "<new>"),
        (lambda found: found["model"]["vocab"].append(["x"]), "a list of tokens with scores"),
        (lambda found: found["model"]["vocab"].append([3, 0.0]), "a list of tokens with scores"),
        (
            lambda found: found["normalizer"]["normalizers"].append(
                {"type": "Precompiled", "precompiled_charsmap": 7}
            ),
            "a list of tokens with scores",
        ),
        (lambda found: found["model"]["vocab"].append(["x", "y"]), "a list of tokens with scores"),
        (
            lambda found: found["model"]["vocab"].append(["\ud800", 1]),
            "a list of tokens with scores",
        ),
        (lambda found: found["model"].pop("vocab"), "a list of tokens with scores"),
        (lambda found: found["model"]["vocab"].pop(), "a token for each row"),
        (
            lambda found: found.update(
                added_tokens=[], model={"type": "Unigram", "vocab": [["a", 0]]}
            ),
            "SentencePiece model",
        ),
        (lambda found: found.update(added_tokens=[3]), "a list of tokens with scores"),
    ],
)
def test_an_unsupported_tokenizer_is_rejected(folder, edit, message):
    change(folder, edit)
    with pytest.raises(UserError, match=message):
        convert.read(folder)
