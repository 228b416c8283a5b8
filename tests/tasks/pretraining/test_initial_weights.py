import numpy as np

from keras_attn.tasks.pretraining.initial_weights import log_frequencies
from keras_attn.text.wordpiece import WordPieceTokenizer


def test_log_frequencies_count_all_but_special_tokens_and_none_is_impossible():
    class Examples:
        num_examples = 2

        def rows(self, start, stop):
            assert (start, stop) == (0, 2)
            return {"token_ids": np.array([[2, 6, 4, 6, 3], [2, 5, 6, 3, 0]], np.int32)}

    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"])
    shares = np.array([1, 1, 1, 1, 1, 2, 4, 1]) / 12
    np.testing.assert_allclose(log_frequencies(Examples(), tokenizer), np.log(shares))
