"""Words of any length: training a vocabulary takes no longer for them."""

import random
import time

import pytest

from keras_attn.text.byte_pairs import train_byte_pairs
from keras_attn.text.long_words import MAX_LEARNED_CHARACTERS, MAX_WORD_LENGTH, cut_long_words
from keras_attn.text.sentence_pieces import train_sentence_pieces
from keras_attn.text.subwords import train_subwords
from keras_attn.text.vocabulary import train_vocabulary


def test_texts_without_a_long_word_stay_as_they_are():
    texts = ["", "a b", "word " * 1000, "x" * MAX_WORD_LENGTH, f"a {'y' * MAX_WORD_LENGTH} b"]
    assert list(cut_long_words(texts)) == texts


@pytest.mark.parametrize("sign", ["a", " ", "=", "語"])
def test_a_long_word_is_cut_and_of_a_very_long_one_its_beginning_is_kept(sign):
    other = "|" if sign == " " else " "
    text = f"b{other}{sign * 3 * MAX_WORD_LENGTH}{other}c"
    parts = list(cut_long_words([text]))
    assert "".join(parts) == text and max(map(len, parts)) <= MAX_WORD_LENGTH + 2
    parts = list(cut_long_words([f"b{other}{sign * 500_000}{other}c"]))
    assert "".join(parts) == f"b{other}{sign * MAX_LEARNED_CHARACTERS}{other}c"


@pytest.mark.parametrize(
    "train",
    [
        lambda texts: train_vocabulary(texts, 2000),
        lambda texts: train_byte_pairs(texts, 2000),
        lambda texts: train_sentence_pieces(texts, 300),
        lambda texts: train_subwords(texts, 300),
        lambda texts: train_subwords(texts, 300, "unigram"),
    ],
    ids=["wordpiece", "bpe", "sentencepiece", "bpe", "unigram"],
)
def test_a_word_of_half_a_million_letters_takes_seconds(train):
    random.seed(0)
    texts = ["the cat sees a dog"] * 50 + ["".join(random.choices("acgt", k=500_000))]
    begin = time.process_time()
    train(texts)
    assert time.process_time() - begin < 10
