"""Groups of related texts: pairs, triplets, scored pairs and single texts."""

import dataclasses
from typing import Any

import numpy as np

from keras_attn.checkpoints.text_settings import TextSettings
from keras_attn.data.sources.files import file_sha256, texts_sha256
from keras_attn.data.sources.record_formats import as_number
from keras_attn.data.sources.tables import describe_location, iterate_rows
from keras_attn.data.sources.text_lines import SKIP_ADVICE
from keras_attn.data.text_examples import TextExamples, TokenizedTexts, tokenize_texts
from keras_attn.errors import UserError
from keras_attn.models.text_embedder import OVER_BATCH
from keras_attn.tasks.finetuning.correlations import MAX_SCORE


@dataclasses.dataclass(frozen=True)
class Groups:
    """Groups of texts.

    Attributes:
        columns: Texts of each column `(N,)`: the first texts, the second ones, and hard negatives.
        scores: Scores of the pairs, float32 `(N,)`, or None.
        files: Names of the files.
        skipped: Number of skipped rows.
    """

    columns: list[list[str]]
    scores: np.ndarray | None
    files: tuple[str, ...]
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def texts(self) -> list[str]:
        """The first texts, for `hold_out`."""
        return self.columns[0]

    @property
    def text_pairs(self) -> list[str] | None:
        """The second texts, for `hold_out`."""
        return self.columns[1] if len(self.columns) > 1 else None

    def take(self, rows: Any) -> "Groups":
        """Returns the groups with the given numbers."""
        columns = [[column[row] for row in rows] for column in self.columns]
        scores = None if self.scores is None else self.scores[np.asarray(rows, int)]
        return dataclasses.replace(self, columns=columns, scores=scores)


def read_groups(source: Any, columns: dict[str, str | None], **options: Any) -> Groups:
    """Reads all groups of a source.

    Args:
        source: See `iterate_rows`.
        columns: Dict of `text`, `text_pair`, `negative` and `label`; None: no such column.
        **options: Further arguments of `iterate_rows`.

    Raises:
        UserError: See `iterate_rows`, or if a score is not a finite number of at most `MAX_SCORE`.
    """
    given = {name: columns[name] for name in ("text", "text_pair", "label")}
    kept = [columns["negative"]] if columns["negative"] else []
    rows = iterate_rows(source, **given, keep=kept, **options)
    texts: list[list[str]] = []
    scores: list[float | None] = []
    files: dict[str, None] = {}  # in order
    skipped = 0
    for row in rows:
        files[row.file] = None
        score = None if row.label is None else as_number(row.label)
        if row.label is not None and (score is None or abs(score) > MAX_SCORE):
            if options.get("on_bad_text") == "skip":
                skipped += 1
                continue
            raise UserError(
                "Scores must be finite numbers, at most 1e15 in absolute value. "
                f"{SKIP_ADVICE} such rows. "
                f"Received: {row.label!r:.50} in {describe_location(row.file, row.line)}"
            )
        pair = () if row.text_pair is None else (row.text_pair,)
        if not all(text.strip() for text in (row.text, *pair, *row.kept)):
            if options.get("on_bad_text") == "skip":
                skipped += 1
                continue
            raise UserError(
                f"Texts must not be empty. {SKIP_ADVICE} such rows. "
                f"Received: {describe_location(row.file, row.line)}"
            )
        texts.append([row.text, *pair, *row.kept])
        scores.append(score)
    if not texts:
        raise UserError(f"The data must have at least one row. Received: {source!r}")
    found = np.array(scores, np.float32) if columns["label"] else None
    total = sum(rows.skipped.values()) + skipped
    return Groups([*map(list, zip(*texts, strict=True))], found, tuple(files), total)


def hashes_of(run: Any, splits: dict[str, Groups | None]) -> dict[str, str]:
    """Returns the SHA-256 of the tokenizer, the data files and the rows of each split."""
    hashes = run.tokenizer_hashes()
    for split, groups in splits.items():
        if groups is None:
            continue
        names = [name for name in groups.files if not name.startswith("tfds:")]
        hashes.update({name: file_sha256(name) for name in names})
        scores = b"" if groups.scores is None else groups.scores.tobytes()
        hashes[f"{split} rows"] = texts_sha256(groups.columns, scores)
    return hashes


class TextReader:
    """Tokenizes texts as `Embedder.embed` does: with the default prompt, lower-cased if required.

    Args:
        settings: `TextSettings` of the model.
        tokenizer: A tokenizer with a `row_layout`.

    Attributes:
        tokenizer: As given.
        unpooled: Number of tokens at the start of a row that are not pooled.
    """

    def __init__(self, settings: TextSettings, tokenizer: Any) -> None:
        self._settings, self.tokenizer = settings, tokenizer
        self._prompt = settings.prompts.get(settings.default_prompt or "", "")
        self.unpooled = 0
        if self._prompt and not settings.include_prompt:
            ids, _ = tokenizer.encode([self._settings.cased(self._prompt, tokenizer)])
            self.unpooled = len(tokenizer.row_layout.before) + len(ids)

    def texts(self, column: list[str]) -> list[str]:
        """Returns texts as the tokenizer receives them."""
        return [self._settings.cased(self._prompt + text, self.tokenizer) for text in column]

    def tokens(self, column: list[str]) -> TokenizedTexts:
        """Returns the tokens of texts."""
        return tokenize_texts(self.texts(column), None, self.tokenizer)


class GroupExamples:
    """Batches of groups, whose arrays have an axis for the texts of a group: `(B, N, T)`.

    A batch is a random sample of the groups, whatever their length, as the other groups of the
    batch are negatives.

    Args:
        groups: `Groups`. A single text is its own pair: in training, the two copies have different
            dropout masks (Gao et al., SimCSE, 2021).
        read: `TextReader`.
        text_fields: Further entries of a batch by name: arrays `(N, C, …)` with values of the texts
            of all C columns.
        **options: `length`, `batch_size`, `buckets`, `seed` and `shuffle` of `TextExamples`.

    Attributes:
        batch_size, num_examples, num_batches, buckets, pad_id: See `TextExamples`.
    """

    def __init__(
        self,
        groups: Groups,
        read: TextReader,
        text_fields: dict[str, np.ndarray] | None = None,
        **options: Any,
    ) -> None:
        self._text_fields = tuple(text_fields or ())
        columns = [
            TextExamples(
                column,
                None,
                None if number else groups.scores,
                read.tokenizer,
                by_length=False,
                tokens=read.tokens(column),
                row_fields=None if number else text_fields,
                **options,
            )
            for number, column in enumerate(groups.columns)
        ]
        first = columns[0]
        self._columns = columns if len(columns) > 1 else [first, first]
        self._unpooled = min(read.unpooled, first.length - 1)
        self.batch_size, self.buckets, self.pad_id = first.batch_size, first.buckets, first.pad_id
        self.num_examples, self.num_batches = first.num_examples, first.num_batches

    def batch(self, index: int) -> dict[str, np.ndarray]:
        """Returns batch `index` (from 0, without limit)."""
        parts = [column.batch(index) for column in self._columns]
        width = max(part["token_ids"].shape[1] for part in parts)
        batch = {name: parts[0][name] for name in ("label", "sample_weight") if name in parts[0]}
        for name in ("token_ids", "segment_ids", "padding_mask"):
            fill = self.pad_id if name == "token_ids" else 0
            batch[name] = np.stack([_widened(part[name], width, fill) for part in parts], axis=1)
        if self._unpooled:
            pooled = np.arange(width) >= self._unpooled
            batch["pooling_mask"] = batch["padding_mask"] * pooled.astype(np.int32)
        for name in self._text_fields:
            copies = len(parts) // parts[0][name].shape[1]  # 2 of a single text
            batch[name] = np.repeat(parts[0][name], copies, axis=1)
        return batch


def _widened(array, width, value):
    return np.pad(array, [(0, 0), (0, width - array.shape[1])], constant_values=value)


def row_lengths(groups: Groups, read: TextReader) -> np.ndarray:
    """Returns the length of the longest text of each group in tokens, with special tokens."""
    return np.max([read.tokens(column).row_lengths for column in groups.columns], axis=0)


def check_columns(columns: dict[str, str | None], loss: str | None) -> None:
    """Checks that the columns suit each other and the loss.

    Args:
        columns: See `read_groups`.
        loss: `train.loss`; None: chosen from the columns.

    Raises:
        UserError: If they do not.
    """
    if columns["text"] is None:
        raise UserError(
            "data.text must be set to the column of the texts. Received: data.text=None"
        )
    for name in ("negative", "label"):
        if columns[name] is not None and columns["text_pair"] is None:
            raise UserError(
                f"data.{name} requires pairs. Set data.text_pair. "
                f"Received: data.{name}={columns[name]}"
            )
    if columns["negative"] is not None and columns["label"] is not None:
        raise UserError(
            "Pairs have either hard negatives or scores. "
            f"Received: data.negative={columns['negative']}, data.label={columns['label']}"
        )
    needs = {"triplet": "negative", "cosent": "label", "cosine": "label"}
    wanted = needs.get(loss or "")
    if wanted and columns[wanted] is None:
        raise UserError(f"train.loss={loss} requires data.{wanted}. Received: data.{wanted}=None")
    if loss == "in_batch_negatives" and columns["label"] is not None:
        raise UserError(
            "train.loss=in_batch_negatives does not use scores. Leave data.label unset. "
            f"Received: data.label={columns['label']}"
        )


def check_groups(config: Any, groups: Groups) -> None:
    """Checks that the training data and fields suit the loss and the teacher.

    Args:
        config: The config, with a loss.
        groups: The training split.

    Raises:
        UserError: If they do not.
    """
    teacher, over_batch = config.train.teacher, config.train.loss in OVER_BATCH
    if over_batch or teacher:
        name = f"train.loss={config.train.loss}" if over_batch else "train.teacher"
        if config.train.batch_size == 1:
            raise UserError(
                f"{name} compares the rows of a batch. Raise train.batch_size. "
                "Received: train.batch_size=1"
            )
        if len(groups) == 1:
            raise UserError(
                f"{name} compares the rows of a batch. Add rows, or raise data.limit. "
                "Received: 1 training row"
            )
    copies = len(groups.columns) == 1 and not (teacher and config.train.distillation == 1)
    if copies and not config.model.dropout:
        raise UserError(
            "Single texts are trained on two copies with different dropout masks. Set "
            "model.dropout, or data.text_pair. Received: model.dropout=0"
        )
    scores = groups.scores
    if scores is None:
        return
    if config.train.loss == "cosent" and np.ptp(scores) == 0:
        raise UserError(
            "train.loss=cosent compares pairs with different scores. Is data.label the right "
            f"column? Received: the score {scores[0]:g} for all training rows"
        )
    if config.train.loss == "cosine" and np.abs(scores).max() > 1:
        raise UserError(
            "train.loss=cosine requires scores from -1 to 1. Use train.loss=cosent, or scale them. "
            f"Received: scores from {scores.min():g} to {scores.max():g}"
        )


def choose_loss(columns: dict[str, str | None]) -> str:
    """Returns the default of `train.loss`."""
    return "cosent" if columns["label"] is not None else "in_batch_negatives"
