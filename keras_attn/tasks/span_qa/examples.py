"""Questions on passages: SQuAD's files, and the windows of a passage that a model reads."""

import dataclasses

import numpy as np

from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.streams import display_name
from keras_attn.data.sources.table_formats import is_text
from keras_attn.data.text_examples import TextExamples
from keras_attn.errors import UserError
from keras_attn.io.json_files import read_object

MOST = 2_000_000_000  # bytes of a file


@dataclasses.dataclass(frozen=True)
class Questions:
    """Questions, each with its passage and the answers to it.

    Attributes:
        ids, questions: Strings, one a question.
        texts: The passage of each.
        answers: Of each a list of texts, all of them right; empty if it has none.
        places: Of each the first character of its first answer and the end of it; None if it has
            no answer, or none that is where it should be.
        misplaced: How many answers are not where they should be.
        files: Names.
    """

    ids: list[str]
    questions: list[str]
    texts: list[str]
    answers: list[list[str]]
    places: list[tuple[int, int] | None]
    misplaced: int = 0
    files: tuple = ()

    text_pairs = None  # parts are held out by passage

    def __len__(self):
        return len(self.ids)

    def take(self, rows):
        """Returns some of them, by number."""
        columns = ("ids", "questions", "texts", "answers", "places")
        return dataclasses.replace(
            self, **{name: [getattr(self, name)[row] for row in rows] for name in columns}
        )

    @property
    def unanswerable(self):
        """How many have no answer."""
        return sum(not answers for answers in self.answers)


def read_questions(source, *, answers=True, on_bad_text="error"):
    """Reads files of SQuAD 1.1 or 2.0.

    Args:
        source: JSON file, a glob, or a list of them.
        answers: Whether questions need answers; without, any there are is not looked at.
        on_bad_text: What to do with an answer that is not where `answer_start` says: "error", or
            "skip" to count it; nothing can be learnt from a question that has no other.

    Returns:
        `Questions`.

    Raises:
        UserError: For a file that is none of SQuAD, with the place in it, or without questions;
            two questions of one id.
    """
    files = find_files(source)
    rows = [row for name in files for row in _rows(name, answers, on_bad_text)]
    if not rows:
        raise UserError(f"At least one question is needed. Received: {source}")
    *columns, misplaced = map(list, zip(*rows, strict=True))
    seen = set()
    for identity in columns[0]:
        if identity in seen:
            raise UserError(f"Every question must have its own id. Received: {identity!r} twice")
        seen.add(identity)
    return Questions(*columns, sum(misplaced), tuple(files))


def _rows(name, need_answers, on_bad_text):
    """Yields the columns of `Questions` and how many answers are misplaced."""
    content, name = read_object(name, MOST), display_name(name)
    for number, article in enumerate(_field(content, "data", list, name), 1):
        place = f"{name}, article {number}"
        for number_of_passage, passage in enumerate(_field(article, "paragraphs", list, place), 1):
            where = f"{place}, paragraph {number_of_passage}"
            text = _field(passage, "context", str, where)
            for question in _field(passage, "qas", list, where):
                identity = _field(question, "id", str, where)
                here = f"{where}, question {identity}"
                asked, answers, places = _field(question, "question", str, here), [], []
                if need_answers:
                    answers, places = _answers(question, text, here, on_bad_text)
                found = [span for span in places if span]
                yield (
                    identity,
                    asked,
                    text,
                    answers,
                    found[0] if found else None,
                    len(places) - len(found),
                )


def _answers(question, passage, here, on_bad_text):
    """Texts of the answers, and the characters of each, None where it is not."""
    answers = _field(question, "answers", list, here)
    if question.get("is_impossible") and answers:
        raise UserError(f"A question must have answers or be impossible. Received: both in {here}")
    texts, places = [], []
    for answer in answers:
        text, start = _field(answer, "text", str, here), _field(answer, "answer_start", int, here)
        end = start + len(text)
        right = 0 <= start < end and passage[start:end] == text
        if not right and on_bad_text == "error":
            raise UserError(
                "Each answer must be in its passage at answer_start; on_bad_text=skip counts those "
                f"that are not. Received: {text[:50]!r}, answer_start={start} in {here}"
            )
        texts.append(text)
        places.append((start, end) if right else None)
    return texts, places


def _field(found, name, kind, where):
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = {list: "a list", str: "a string", int: "a whole number"}
        raise UserError(
            f"A file of SQuAD is needed, with {kinds[kind]} as {name}. Received: {where}, without"
        )
    if isinstance(value, str) and not is_text(value):
        raise UserError(
            "Text that UTF-8 can hold is needed, without half a surrogate pair. "
            f"Received: {name} of {where}"
        )
    return value


@dataclasses.dataclass(frozen=True)
class Windows:
    """Parts of passages that fit into a row with the question, the shortest rows first.

    Attributes:
        questions: Token ids of the question in each, int32 arrays.
        passages: Token ids of the part of the passage in each.
        rows: Number of the question of each, int64 `(N,)`.
        spans: The characters of the passage that each token of the part is: int64 `(tokens, 2)`.
        labels: int32 `(N, 2)`, the positions of the first and the last token of the answer in
            `[CLS] question [SEP] passage [SEP]`; 0 where the part does not hold all of it.
        weights: float32 `(N,)`, 0 for a question whose answers are not in the passage, or in no
            window as a whole.
        lost: How many questions are such for the latter reason.
        cut: How many questions are cut at their longest length.
        lengths: Tokens of each passage, int64 `(P,)`.
    """

    questions: list
    passages: list
    rows: np.ndarray
    spans: list
    labels: np.ndarray
    weights: np.ndarray
    lost: int
    cut: int
    lengths: np.ndarray

    def __len__(self):
        return len(self.rows)


def cut_windows(questions, tokenizer, *, length, max_question, stride):
    """Cuts passages into windows that overlap, as google-research/bert's run_squad.py does.

    Args:
        questions: `Questions`.
        tokenizer: A `WordPieceTokenizer`.
        length: Tokens of a row at most.
        max_question: Tokens of a question at most; what comes after is dropped.
        stride: Tokens from the beginning of a window to that of the next. None: 128 as in
            run_squad.py, but half a window at most.

    Returns:
        `Windows`; of each question one at least.

    Raises:
        UserError: If no token of a passage fits beside a long question.
    """
    if length < max_question + 4:
        raise UserError(
            "data.length must have room for data.max_question, 3 special tokens and "
            f"some of the passage. Received: data.length={length}, "
            f"data.max_question={max_question}"
        )
    distinct = {text: number for number, text in enumerate(dict.fromkeys(questions.texts))}
    passages, spans = _split(*tokenizer.encode_with_spans(list(distinct)))
    (encoded,) = _split(*tokenizer.encode(questions.questions))
    found, lost = [], 0
    for row, (question, text) in enumerate(zip(encoded, questions.texts, strict=True)):
        question, number = question[:max_question], distinct[text]
        answer = _answer_tokens(spans[number], questions.places[row])
        before = len(question) + 2
        room = length - before - 1
        bounds = list(
            window_bounds(len(passages[number]), room, stride or max(1, min(128, room // 2)))
        )
        labels = [
            (before + answer[0] - start, before + answer[1] - start)
            if answer and start <= answer[0] and answer[1] < end
            else (0, 0)
            for start, end in bounds
        ]
        lost += answer is not None and not any(map(any, labels))
        weight = float(any(map(any, labels)) or not questions.answers[row])
        found += [
            (question, passages[number][start:end], row, spans[number][start:end], label, weight)
            for (start, end), label in zip(bounds, labels, strict=True)
        ]
    found.sort(key=lambda window: len(window[0]) + len(window[1]))
    asked, parts, rows, spans, labels, weights = zip(*found, strict=True)
    return Windows(
        list(asked),
        list(parts),
        np.array(rows),
        list(spans),
        np.array(labels, np.int32),
        np.array(weights, np.float32),
        lost,
        sum(len(question) > max_question for question in encoded),
        np.array([len(passage) for passage in passages]),
    )


def window_bounds(tokens, room, stride):
    """Yields the first token of each window of a passage and its end."""
    start = 0
    while start + room < tokens:
        yield start, start + room
        start += min(room, stride)
    yield start, tokens


def window_examples(windows, tokenizer, **options):
    """`TextExamples` of the windows.

    Args:
        windows: `Windows`.
        tokenizer: The `WordPieceTokenizer` that they were cut with.
        options: Of `TextExamples`, but for `weights`.
    """
    return TextExamples(
        windows.questions,
        windows.passages,
        windows.labels,
        _OfIds(tokenizer),
        weights=windows.weights,
        **options,
    )


class _OfIds:
    """A tokenizer of what is token ids already."""

    def __init__(self, tokenizer):
        self.row_layout = tokenizer.row_layout
        self.vocabulary_size = tokenizer.vocabulary_size

    def encode(self, texts):
        return np.concatenate(texts), np.cumsum([len(ids) for ids in texts], dtype="int64")


def _split(ids, ends, *others):
    """Lists of the parts of flat arrays that end there."""
    return [np.split(array, ends[:-1]) for array in (ids, *others)]


def _answer_tokens(spans, place):
    """First and last token that have a character of the answer; None if none has."""
    if place is None:
        return None
    start, end = place
    tokens = np.flatnonzero((spans[:, 1] > start) & (spans[:, 0] < end))
    return (int(tokens[0]), int(tokens[-1])) if len(tokens) else None
