"""Inference with extractive question answering models."""

from keras_attn.counts import counted
from keras_attn.data.batches import TableBatches
from keras_attn.errors import UserError, check_counts
from keras_attn.io.finite import check_outputs
from keras_attn.tasks.embedder import Embedder, listed
from keras_attn.tasks.span_qa.answers import find_answers
from keras_attn.tasks.span_qa.examples import Questions, cut_windows, window_examples
from keras_attn.visualize.attention_of_text import attention_of_batch, page_title

MAX_QUESTIONS = 1024  # with windows and logits in memory


class Answerer(Embedder):
    """A finetuned question answering model, which also embeds texts.

    Attributes:
        threshold: Value of `no_answer` above which there is no answer; None: there is always one.
    """

    def __init__(self, trained):
        super().__init__(trained)
        self.threshold = trained.files["threshold"]

    def answer(self, questions, passages, top=1, batch_size=64):
        """Answers questions with spans of passages.

        Args:
            questions: A string, or a list of strings.
            passages: The passage of each question, of any length.
            top: Number of spans with distinct texts to return.
            batch_size: Batch size; the results do not depend on it.

        Returns:
            A dict, or a list of dicts: `answer`, "" if there is none; `score` of the best span;
            `start` and `end`, its characters in the passage, or None; `no_answer`, the score of "no
            answer" minus the score of the best span. With `top` above 1 also `spans`, the best
            spans as dicts of `text`, `score`, `start` and `end`.

        Raises:
            UserError: If the numbers of passages and questions differ, or `top` is not a
                positive integer.
        """
        check_counts(top=top)
        if isinstance(questions, str) and isinstance(passages, str):
            return self.answer([questions], [passages], top, batch_size)[0]
        questions, passages = listed(questions), listed(passages)
        if len(questions) != len(passages):
            raise UserError(
                "Each question must have a passage. "
                f"Received: {counted(len(questions), 'question')}, "
                f"{counted(len(passages), 'passage')}"
            )
        none = [None] * len(questions)
        found = self.find(Questions(none, questions, passages, none, none), top, batch_size)
        return [self._as_dict(answer, top) for answer in found]

    def find(self, questions, count=1, batch_size=64):
        """Finds the best spans of passages, without the threshold.

        Args:
            questions: `Questions`.
            count: Number of spans with distinct texts.
            batch_size: Batch size.

        Returns:
            A list of `keras_attn.tasks.span_qa.answers.Answer`.
        """
        return [
            answer
            for first in range(0, len(questions), MAX_QUESTIONS)
            for answer in self._find(
                questions.take(range(len(questions))[first : first + MAX_QUESTIONS]),
                count,
                batch_size,
            )
        ]

    def attention_page(self, text, text_pair=None):
        """Returns an `AttentionPage` of a question and the window of the passage with the answer.

        Args:
            text: The question.
            text_pair: The passage.

        Raises:
            UserError: If there is no passage, or the model has no attention weights.
        """
        if text_pair is None:
            raise UserError("A question requires its passage as text_pair. Received: None")
        question = Questions([None], listed([text]), listed([text_pair]), [None], [None])
        windows = self._cut(question)
        (answer,) = self.find(question)
        number = windows.around(answer.spans[0].start, answer.spans[0].end)
        batch = self._batches(windows.take([number]), 1).batch(0, 0, 1)
        batch = {name: batch[name] for name in ("token_ids", "segment_ids", "padding_mask")}
        return attention_of_batch(self, batch, page_title(text, answer.spans[0].text))

    def _cut(self, questions):
        data = self.config["data"]
        return cut_windows(
            questions,
            self.tokenizer,
            length=self.length,
            max_question=data["max_question"],
            stride=data["stride"],
        )

    def _batches(self, windows, batch_size):
        return TableBatches(
            window_examples(
                windows, self.tokenizer, length=self.length, batch_size=batch_size, shuffle=False
            )
        )

    def _find(self, questions, count, batch_size):
        data, windows = self.config["data"], self._cut(questions)
        self.cut[data["max_question"]] += windows.cut
        batches = self._batches(windows, batch_size)
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

    def _as_dict(self, answer, top):
        best = answer.spans[0]._asdict()
        best = {"answer": best.pop("text"), **best, "no_answer": answer.no_answer}
        if self.threshold is not None and answer.no_answer > self.threshold:
            best.update(answer="", start=None, end=None)
        spans = [span._asdict() for span in answer.spans]
        return {**best, "spans": spans} if top > 1 else best
