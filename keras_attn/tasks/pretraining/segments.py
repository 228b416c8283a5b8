"""What a row of BERT's pretraining holds, where the config leaves it to the text."""

from keras_attn.counts import counted
from keras_attn.data.shards.shard_files import read_index
from keras_attn.tasks.pretraining.splits import prepared_folder

FEW_FOLLOW = 0.1  # share of sentences with a next one below which there is nothing to predict


def choose_segments(run, sources, tokenizer):
    """Sets `data.segments` where it is unset, and warns where next sentences cannot be predicted.

    In documents of a single sentence nothing follows: every second segment would be a random one.

    Args:
        run: `Run`.
        sources: Dict from splits to texts.
        tokenizer: `WordPieceTokenizer`.

    Returns:
        Whether the run has to do without next-sentence prediction.
    """
    data, fallback = run.config.data, False
    indices = {
        split: read_index(prepared_folder(run, split, source, tokenizer))
        for split, source in sources.items()
    }
    for split, index in reversed(indices.items()):  # training first: it decides
        report = index["report"]
        documents, sentences = report["documents"], report["sentences"]
        if (
            data.segments not in (None, "next_sentence")
            or documents <= (1 - FEW_FOLLOW) * sentences
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
