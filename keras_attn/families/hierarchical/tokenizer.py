"""WordPiece tokenizer that keeps the ends of paragraphs."""

import re

import tensorflow as tf

from keras_attn.text.tokenizer_types import TOKENIZER_TYPES
from keras_attn.text.vocabulary import train_vocabulary
from keras_attn.text.wordpiece import WordPieceTokenizer

PARAGRAPH_END = "¶"
# In the syntax of Python and of RE2.
_BLANK_LINES = r"[ \t\r]*\n[ \t\r]*\n[ \t\r\n]*"
_MARK = f" {PARAGRAPH_END} "


class ParagraphTokenizer(WordPieceTokenizer):
    """`WordPieceTokenizer` for which blank lines are the token `¶`, if the vocabulary has it."""

    def __call__(self, texts):
        if PARAGRAPH_END not in self.ids:
            return super().__call__(texts)
        if isinstance(texts, list):
            texts = [_mark(text) for text in texts]
        else:
            texts = tf.strings.regex_replace(tf.strings.strip(texts), _BLANK_LINES, _MARK)
        return super().__call__(texts)

    def with_lowercase(self, lowercase):
        return type(self)(self.vocabulary, lowercase)


def _mark(text):
    return re.sub(_BLANK_LINES, _MARK, text.strip(" \t\r\n\v\f"))


def _train(texts, size, lowercase):
    texts = (_mark(text) for text in texts)
    return ParagraphTokenizer(train_vocabulary(texts, size, lowercase), lowercase)


TOKENIZERS = TOKENIZER_TYPES["wordpiece"]._replace(
    from_recipe=ParagraphTokenizer, read=ParagraphTokenizer.from_file, train=_train
)
