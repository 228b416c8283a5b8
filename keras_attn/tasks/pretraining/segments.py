"""Default of `data.segments`, which depends on the text."""

from keras_attn.counts import counted
from keras_attn.data.shards.shard_files import read_index
from keras_attn.tasks.pretraining.splits import prepared_folder

MIN_FOLLOWED = 0.1  # fraction of sentences with a next one that next-sentence prediction requires


def choose_segments(run, sources, tokenizer):
    """Sets `data.segments` if it is unset, and warns if next sentences cannot be predicted.

    If documents have a single sentence, every second segment would be random.

    Args:
        run: `Run`.
        sources: Dict from splits to texts.
        tokenizer: `WordPieceTokenizer`.

    Returns:
        Whether the run leaves out next-sentence prediction.
    """
    data, fallback = run.config.data, False
    indices = {
        split: read_index(prepared_folder(run, split, source, tokenizer))
        for split, source in sources.items()
    }
    for split, index in reversed(indices.items()):  # training first, which sets the field
        report = index["report"]
        documents, sentences = report["documents"], report["sentences"]
        if (
            data.segments not in (None, "next_sentence")
            or documents <= (1 - MIN_FOLLOWED) * sentences
        ):
            continue
        if split != "train":
            then = "Its nsp_accuracy is meaningless."
        elif data.segments is None and not run.config.model.get("next_sentence"):
            run.set_field("data.segments", "full_sentences")
            fallback = True
            then = (
                "The run uses data.segments=full_sentences and leaves out next-sentence prediction."
            )
        else:
            then = (
                "Next-sentence prediction learns nothing from it. Set data.segments="
                "full_sentences, and leave model.next_sentence unset."
            )
        run.say(
            f"warning: hardly any sentence of data.{split} has a next sentence: the text has "
            f"{counted(sentences, 'sentence')} in {counted(documents, 'document')}. {then}"
        )
        if index["source"].get("format") == "lines":
            run.say(
                "If the blank lines in this text do not separate documents, set "
                "data.format=paragraphs (--format of pretrain.prepare)."
            )
    if data.segments is None:
        run.set_field("data.segments", "next_sentence")
    return fallback
