"""BLEU and chrF, computed by sacrebleu."""

from keras_attn.errors import UserError, check_choice, first_line


def translation_scores(translations, references, lowercase=False, tokenize="13a"):
    """Returns BLEU and chrF of a corpus.

    Args:
        translations, references: Lists of strings.
        lowercase, tokenize: See sacrebleu; "none" for tokenized text.

    Returns:
        Dict of `bleu` and `chrf`: (score from 0 to 100, sacrebleu signature).

    Raises:
        UserError: If sacrebleu is not installed or does not have the tokenizer.

    Reference:
        Post, A Call for Clarity in Reporting BLEU Scores, 2018.
    """
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ImportError:
        raise UserError(
            "Validation of translations requires sacrebleu. Run: "
            "pip install 'keras-attn[translate]'"
        ) from None
    check_choice("eval.tokenize", tokenize, BLEU.TOKENIZERS)
    try:
        bleu = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    except (RuntimeError, ImportError, OSError) as error:  # a missing dependency
        raise UserError(
            f"sacrebleu cannot use eval.tokenize={tokenize}: {first_line(error)}"
        ) from error
    found = {}
    for name, metric in (("bleu", bleu), ("chrf", CHRF(lowercase=lowercase))):
        score = metric.corpus_score(translations, [references]).score
        found[name] = float(score), str(metric.get_signature())
    return found
