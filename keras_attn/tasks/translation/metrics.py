"""BLEU and chrF, by sacrebleu."""

from keras_attn.errors import UserError, check_choice, first_line


def translation_scores(translations, references, lowercase=False, tokenize="13a"):
    """BLEU and chrF of a corpus.

    Args:
        translations, references: Lists of strings.
        lowercase, tokenize: See sacrebleu; "none" for text that is tokenised.

    Returns:
        Dict of `bleu` and `chrf`: the score, 0 to 100, and sacrebleu's signature.

    Raises:
        UserError: If sacrebleu is not installed, or knows no such tokenizer.

    Reference:
        Post, A Call for Clarity in Reporting BLEU Scores, 2018.
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise UserError(
            "Validation of translations needs sacrebleu: "
            "pip install 'keras-attn[translate]'. Received: none"
        ) from None
    check_choice("eval.tokenize", tokenize, BLEU.TOKENIZERS)
    try:
        bleu = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    except (RuntimeError, ImportError, OSError) as error:  # of what a tokenizer needs
        raise UserError(
            "eval.tokenize must work here. Received: "
            f"eval.tokenize={tokenize} ({first_line(error)})"
        ) from error
    found = {}
    for name, metric in (("bleu", bleu), ("chrf", CHRF(lowercase=lowercase))):
        score = metric.corpus_score(translations, [references]).score
        found[name] = float(score), str(metric.get_signature())
    return found
