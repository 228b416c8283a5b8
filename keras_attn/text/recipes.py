"""Tokenizers as JSON, for processes that tokenise elsewhere.

What prepares text needs of a tokenizer: `encode(texts, threads)`, `vocabulary_size`, `lowercase`,
`unk_id` (None: there is none), `separator`, what joins sentences of a document, `sha256`, and
`recipe`, what `tokenizer_of` takes.
"""

from keras_attn.text.byte_pairs import BytePairTokenizer
from keras_attn.text.sentence_pieces import SentencePieceTokenizer
from keras_attn.text.wordpiece import WordPieceTokenizer

_KINDS = {"word_pieces": WordPieceTokenizer, "byte_pairs": BytePairTokenizer,
          "sentence_pieces": SentencePieceTokenizer.of_recipe}


def tokenizer_of(recipe):
    """The tokenizer of a recipe: a dictionary of its `kind` and its arguments."""
    arguments = dict(recipe)
    return _KINDS[arguments.pop("kind")](**arguments)
