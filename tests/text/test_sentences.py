import time

import pytest

from keras_attn.text.sentences import split_long, split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["It rained.", "It stopped!", "Did it?", "Yes…", "It did."],
        ['"Stop!" he cried.', '"Why?"', "“No.”", "She left."],
        ['"What?" said he.'],
        ["Mr. Dick met Dr. J. R. Smith, of St. Ives, at 5 p.m. yesterday."],
        ["See Fig. 3 and No. 7, e.g. Table 2, i.e. Vol. IV."],
        ["He said no.", "Then he left in Dec. 1860."],
        ["It was I.", "He knew."],
        ["Pi is 3.14.", "42 is more."],
        ["Use a.b.c or x.py here.", "Élan is good.", "Ähnlich."],
        ["(It ended.)", "[It began.]", "_So_ it goes."],
        ["no capital follows. so this is one sentence"],
        ["私は猫です。", "犬ではない！", "本当？"],
    ],
)
def test_sentences_joined_to_a_paragraph_are_found_again(sentences):
    assert split_sentences(" ".join(sentences)) == sentences
    assert split_sentences("\n" + "  \n ".join(sentences) + "\t") == sentences


def test_text_without_words_has_no_sentences():
    assert split_sentences("") == split_sentences(" \n\t ") == []


@pytest.mark.parametrize("run", [".", "。", ".'", "_. ", ".(", "…\n"])
def test_a_long_run_of_marks_takes_linear_time(run):
    started = time.process_time()
    paragraph = run * 200_000 + "x"
    assert "".join("".join(split_sentences(paragraph)).split()) == "".join(paragraph.split())
    assert time.process_time() - started < 1  # quadratic time would be minutes


def test_a_short_sentence_is_not_cut():
    assert split_long("a  b\tc", words=3) == ["a  b\tc"]
    assert split_long("w" * 5000) == ["w" * 5000]


def test_a_long_sentence_is_cut_after_clauses_and_keeps_its_words():
    words = [f"w{number}" for number in range(1500)]
    for number in (300, 450, 700, 1400):
        words[number] += ","
    parts = split_long(" ".join(words))
    assert " ".join(parts).split() == words
    # The clause that ends 250 words after the first cut would leave a part of less than half.
    assert [len(part.split()) for part in parts] == [451, 512, 438, 99]
