import pytest
import tensorflow as tf

from keras_attn.families.hierarchical.family import FAMILY
from keras_attn.families.hierarchical.tokenizer import TOKENIZERS, ParagraphTokenizer
from keras_attn.text.vocabulary import SPECIAL_TOKENS
from keras_attn.text.wordpiece import WordPieceTokenizer

WORDS = [*SPECIAL_TOKENS, "a", "film", ".", "!", "¶"]
TEXTS = ["a film.\n\na", "a\r\n \t\r\nfilm\n\n\n\n!", "\n\na film\n\n", "a\nfilm", "a¶film", ""]
WANTED = ["a film . ¶ a", "a ¶ film ¶ !", "a film", "a film", "a ¶ film", ""]


def words_of(tokenizer, texts):
    return [" ".join(WORDS[i] for i in row) for row in tokenizer(texts).to_list()]


def test_a_blank_line_is_a_token_in_lists_and_in_graphs():
    tokenizer = ParagraphTokenizer(WORDS)
    assert words_of(tokenizer, TEXTS) == WANTED
    assert words_of(tf.function(tokenizer.in_graph()), tf.constant(TEXTS)) == WANTED
    assert type(tokenizer.with_lowercase(False)) is ParagraphTokenizer


def test_a_vocabulary_without_the_token_ignores_blank_lines():
    words = WORDS[:-1]
    assert words_of(ParagraphTokenizer(words), TEXTS[:4]) == words_of(
        WordPieceTokenizer(words), TEXTS[:4]
    )
    assert FAMILY.tokenizer_arguments(ParagraphTokenizer(words))["paragraph_ends"] == []


@pytest.mark.parametrize("text, known", [("a film.\n\nA film!", True), ("a film.\nA film!", False)])
def test_training_learns_the_token_from_texts_with_blank_lines(text, known):
    tokenizer = TOKENIZERS.train([text] * 20, 200, True)
    found = FAMILY.tokenizer_arguments(tokenizer)
    tokens = [tokenizer.vocabulary[i] for i in found["sentence_ends"]]
    assert tokens == [".", "!", "[SEP]"] and found["vocabulary_size"] == len(tokenizer.vocabulary)
    assert bool(found["paragraph_ends"]) == known
