"""Question answering examples: SQuAD files, and windows of passages."""

import dataclasses

import numpy as np

from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.streams import display_name
from keras_attn.data.sources.table_formats import is_text
from keras_attn.data.sources.text_lines import SKIP_ADVICE
from keras_attn.data.text_examples import TextExamples
from keras_attn.errors import UserError
from keras_attn.io.json_files import read_object

MAX_BYTES = 2_000_000_000  # of a file


@dataclasses.dataclass(frozen=True)
class Questions:
    """Questions with their passages and answers.

    Attributes:
        ids, questions: Strings `(N,)`.
        texts: Passage of each question.
        answers: List of the correct answers to each question; [] if it has no answer.
        places: Start and end of the first answer to each question in the passage; None if it has no
            answer, or none at `answer_start`.
        misplaced: Number of answers that are not at `answer_start`.
        files: Names of the files.
    """

    ids: list[str]
    questions: list[str]
    texts: list[str]
    answers: list[list[str]]
    places: list[tuple[int, int] | None]
    misplaced: int = 0
    files: tuple = ()

    text_pairs = None  # rows are held out by passage

    def __len__(self):
        return len(self.ids)

    def take(self, rows):
        """Returns the questions with the given numbers."""
        columns = ("ids", "questions", "texts", "answers", "places")
        return dataclasses.replace(
            self, **{name: [getattr(self, name)[row] for row in rows] for name in columns}
        )

    @property
    def unanswerable(self):
        """Number of questions without an answer."""
        return sum(not answers for answers in self.answers)


def read_questions(source, *, answers=True, on_bad_text="error"):
    """Reads SQuAD 1.1 or 2.0 files.

    Args:
        source: JSON file, a glob, or a list of them.
        answers: Whether to read the answers.
        on_bad_text: How to handle an answer that is not at `answer_start`: "error", or "skip" to
            count it; a question without another answer has weight 0 in training.

    Returns:
        `Questions`.

    Raises:
        UserError: If a file is not a SQuAD file or has no questions, or two questions have the
            same id.
    """
    files = find_files(source)
    rows = [row for name in files for row in _rows(name, answers, on_bad_text)]
    if not rows:
        raise UserError(f"SQuAD files must have at least one question. Received: {source}")
    *columns, misplaced = map(list, zip(*rows, strict=True))
    seen = set()
    for identity in columns[0]:
        if identity in seen:
            raise UserError(f"Ids of questions must be distinct. Received: {identity!r} twice")
        seen.add(identity)
    return Questions(*columns, sum(misplaced), tuple(files))


def _rows(name, need_answers, on_bad_text):
    """Yields the columns of `Questions` and the number of misplaced answers."""
    content, name = read_object(name, MAX_BYTES), display_name(name)
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
    """Returns the texts of the answers, and (start, end) of each, None if it is misplaced."""
    answers = _field(question, "answers", list, here)
    impossible = question.get("is_impossible")
    if impossible not in (None, True, False):
        raise UserError(f"is_impossible must be true or false. Received: {impossible!r} in {here}")
    if impossible and answers:
        raise UserError(f"An impossible question must not have answers. Received: both in {here}")
    texts, places = [], []
    for answer in answers:
        text, start = _field(answer, "text", str, here), _field(answer, "answer_start", int, here)
        end = start + len(text)
        right = 0 <= start < end and passage[start:end] == text
        if not right and on_bad_text == "error":
            raise UserError(
                f"Answers must be in the passage at answer_start. {SKIP_ADVICE} "
                f"others. Received: {text[:50]!r}, answer_start={start} in {here}"
            )
        texts.append(text)
        places.append((start, end) if right else None)
    return texts, places


def _field(found, name, kind, where):
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = {list: "a list", str: "a string", int: "an integer"}
        raise UserError(
            f"SQuAD files must have {kinds[kind]} as {name}. Received: {where}, without"
        )
    if isinstance(value, str) and not is_text(value):
        raise UserError(
            f"Text must be valid Unicode, without unpaired surrogates. Received: {name} of {where}"
        )
    return value


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows of passages that fit into a row with the question, the shortest rows first.

    Attributes:
        questions: Token ids of the question of each window, int32 arrays.
        passages: Token ids of each window.
        rows: Number of the question of each window, int64 `(N,)`.
        spans: Start and end of each token of a window in the passage, int64 `(tokens, 2)`.
        labels: Positions of the first and the last token of the answer in
            the row, such as `[CLS] question [SEP] passage [SEP]`, int32 `(N, 2)`; 0 if the window
            does not contain the whole answer.
        weights: float32 `(N,)`; 0 for a question whose answers are misplaced or in no window.
        lost: Number of questions whose answer is in no window.
        cut: Number of truncated questions.
        lengths: Number of tokens of each passage, int64 `(P,)`.
        specials: Number of special tokens before a passage.
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
    specials: int

    def __len__(self):
        return len(self.rows)

    def passage_start(self, number):
        """Returns the position of the first token of the passage in the row of a window."""
        return self.specials + len(self.questions[number])

    def take(self, numbers):
        """Returns the `Windows` with these numbers."""
        lists, arrays = ("questions", "passages", "spans"), ("rows", "labels", "weights")
        return dataclasses.replace(
            self,
            **{name: [getattr(self, name)[n] for n in numbers] for name in lists},
            **{name: getattr(self, name)[numbers] for name in arrays},
        )

    def around(self, start, end):
        """Returns the number of the window with the most context on both sides of a span.

        Args:
            start, end: Characters of the passage of all windows; None: of the passage as a whole.
        """
        if start is None:
            return 0
        sides = [
            min(start - spans[0, 0], spans[-1, 1] - end) if len(spans) else -1
            for spans in self.spans
        ]
        return int(np.argmax(sides))


def cut_windows(questions, tokenizer, *, length, max_question, stride):
    """Splits passages into overlapping windows, like run_squad.py of google-research/bert.

    Args:
        questions: `Questions`.
        tokenizer: A `WordPieceTokenizer`, or another one with spans and a `row_layout`.
        length: Maximum row length in tokens.
        max_question: Maximum number of tokens of a question; longer questions are truncated.
        stride: Tokens between the starts of consecutive windows; None: 128 as in run_squad.py, but
            at most half a window.

    Returns:
        `Windows`, at least one per question.

    Raises:
        UserError: If a row has no room for the passage beside a long question.
    """
    layout = tokenizer.row_layout
    around = layout.count(True)
    if length <= max_question + around:
        raise UserError(
            f"data.length must be at least data.max_question + {around + 1}: the question, "
            f"{around} special tokens and the passage. Received: data.length={length}, "
            f"data.max_question={max_question}"
        )
    distinct = {text: number for number, text in enumerate(dict.fromkeys(questions.texts))}
    passages, spans = _split(*tokenizer.encode_with_spans(list(distinct)))
    (encoded,) = _split(*tokenizer.encode(questions.questions))
    found, lost, specials = [], 0, len(layout.before) + len(layout.between)
    for row, (question, text) in enumerate(zip(encoded, questions.texts, strict=True)):
        question, number = question[:max_question], distinct[text]
        answer = _answer_tokens(spans[number], questions.places[row])
        before, room = specials + len(question), length - len(question) - around
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
        specials,
    )


def window_bounds(tokens, room, stride):
    """Yields the start and end of each window of a passage, in tokens."""
    start = 0
    while start + room < tokens:
        yield start, start + room
        start += min(room, stride)
    yield start, tokens


def window_examples(windows, tokenizer, **options):
    """Returns the `TextExamples` of windows.

    Args:
        windows: `Windows`.
        tokenizer: The tokenizer of `cut_windows`.
        options: Arguments of `TextExamples` except `weights`.
    """
    return TextExamples(
        windows.questions,
        windows.passages,
        windows.labels,
        _Identity(tokenizer),
        weights=windows.weights,
        **options,
    )


class _Identity:
    """A tokenizer whose texts are token ids."""

    def __init__(self, tokenizer):
        self.row_layout = tokenizer.row_layout
        self.vocabulary_size = tokenizer.vocabulary_size

    def encode(self, texts):
        return np.concatenate(texts), np.cumsum([len(ids) for ids in texts], dtype="int64")


def _split(ids, ends, *others):
    """Splits flat arrays at `ends`, each into a list of arrays."""
    return [np.split(array, ends[:-1]) for array in (ids, *others)]


def _answer_tokens(spans, place):
    """Returns the first and the last token of the answer; None if it has no token."""
    if place is None:
        return None
    start, end = place
    tokens = np.flatnonzero((spans[:, 1] > start) & (spans[:, 0] < end))
    return (int(tokens[0]), int(tokens[-1])) if len(tokens) else None
