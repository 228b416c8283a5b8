"""BLEU and chrF, by sacrebleu."""

from keras_attn.errors import UserError


def check_sacrebleu():
    """Raises UserError where sacrebleu is not installed."""
    try:
        import sacrebleu  # noqa: F401
    except ImportError:
        raise UserError("Validation of translations needs sacrebleu: "
                        "pip install 'keras-attn[translate]'. Received: none") from None


def translation_metrics(translations, references, lowercase=False, tokenize="13a"):
    """BLEU and chrF of a corpus.

    Args:
        translations, references: Lists of strings.
        lowercase, tokenize: See sacrebleu; "none" for text that is tokenised.

    Returns:
        Dict of `bleu` and `chrf`, 0 to 100.

    Reference:
        Post, A Call for Clarity in Reporting BLEU Scores, 2018.
    """
    return {name: score for name, (score, _) in
            scores(translations, references, lowercase, tokenize).items()}


def signatures(lowercase=False, tokenize="13a"):
    """What sacrebleu calls these metrics: `{name: signature}`."""
    return {name: signature for name, (_, signature) in
            scores(["a"], ["a"], lowercase, tokenize).items()}


def scores(translations, references, lowercase, tokenize):
    """`{name: (score, signature)}`."""
    from sacrebleu.metrics import BLEU, CHRF

    found = {}
    for name, metric in (("bleu", BLEU(lowercase=lowercase, tokenize=tokenize, force=True)),
                         ("chrf", CHRF(lowercase=lowercase))):
        score = metric.corpus_score(translations, [references]).score
        found[name] = float(score), str(metric.get_signature())
    return found
