"""The error that the command line prints as one line."""


class UserError(ValueError):
    """Something that the user can mend: a missing file, a wrong column, a typo.

    The message says what is needed and what was received. Entry points print
    it without a traceback and exit with status 2.
    """
