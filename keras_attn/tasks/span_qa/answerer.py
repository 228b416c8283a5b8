"""Models that find answers in passages."""

from keras_attn.counts import counted
from keras_attn.data.batches import TableBatches
from keras_attn.errors import UserError
from keras_attn.io.finite import check_outputs
from keras_attn.tasks.embedder import Embedder, listed
from keras_attn.tasks.span_qa.answers import find_answers
from keras_attn.tasks.span_qa.examples import Questions, cut_windows, window_examples

MOST_QUESTIONS = 1024  # whose windows and logits are in memory together


class Answerer(Embedder):
    """A finetuned BERT that finds answers in passages besides.

    Attributes:
        threshold: Where `no_answer` is above it there is no answer; None: there always is one.
    """

    def __init__(self, trained):
        super().__init__(trained)
        self.threshold = trained.files["threshold"]

    def answer(self, questions, passages, top=1, batch_size=64):
        """Answers questions by parts of passages.

        Args:
            questions: A string, or a list of them.
            passages: The passage of each, likewise; of any length.
            top: How many parts of different texts to tell of.
            batch_size: Rows worked on together; the results do not depend on it.

        Returns:
            A dict, or a list of them: `answer`, "" if there is none; `score` of the best part,
            the higher, the surer; `start` and `end`, which characters of the passage it is, or
            None; `no_answer`, how much "no answer" scores above it. With `top` above 1 also
            `spans`, the best parts as dicts of `text`, `score`, `start` and `end`.

        Raises:
            UserError: If there are not as many passages as questions, or `top` is below 1.
        """
        if top < 1:
            raise UserError(f"top must be at least 1. Received: top={top}")
        if isinstance(questions, str) and isinstance(passages, str):
            return self.answer([questions], [passages], top, batch_size)[0]
        questions, passages = listed(questions), listed(passages)
        if len(questions) != len(passages):
            raise UserError(
                "As many passages as questions are needed. "
                f"Received: {counted(len(questions), 'question')}, "
                f"{counted(len(passages), 'passage')}"
            )
        none = [None] * len(questions)
        found = self.find(Questions(none, questions, passages, none, none), top, batch_size)
        return [self._told(answer, top) for answer in found]

    def find(self, questions, count=1, batch_size=64):
        """Finds the best parts of passages, whether they are better than none or not.

        Args:
            questions: `Questions`.
            count: As `top` of `answer`.
            batch_size: As in `answer`.

        Returns:
            A list of `keras_attn.tasks.span_qa.answers.Answer`.
        """
        return [
            answer
            for first in range(0, len(questions), MOST_QUESTIONS)
            for answer in self._find(
                questions.take(range(len(questions))[first : first + MOST_QUESTIONS]),
                count,
                batch_size,
            )
        ]

    def _find(self, questions, count, batch_size):
        data = self.config["data"]
        windows = cut_windows(
            questions,
            self.tokenizer,
            length=self.length,
            max_question=data["max_question"],
            stride=data["stride"],
        )
        self.cut[data["max_question"]] += windows.cut
        batches = TableBatches(
            window_examples(
                windows, self.tokenizer, length=self.length, batch_size=batch_size, shuffle=False
            )
        )
        logits = [
            row
            for number in range(batches.num_batches)
            for row in self._output(batches.batch(number, 0, batch_size), "span_logits")
        ]
        for row in logits:
            check_outputs(row, f"the model in {self.path}")
        return find_answers(
            windows, logits[: len(windows)], questions.texts, data["max_answer"], count
        )

    def _told(self, answer, top):
        best = answer.spans[0]._asdict()
        best = {"answer": best.pop("text"), **best, "no_answer": answer.no_answer}
        if self.threshold is not None and answer.no_answer > self.threshold:
            best.update(answer="", start=None, end=None)
        spans = [span._asdict() for span in answer.spans]
        return {**best, "spans": spans} if top > 1 else best
