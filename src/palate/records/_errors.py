"""The one exception that palate raises on purpose."""


class PalateError(Exception):
    """Something a person can mend: a wrong name, a broken file, a missing package.

    The message says what was wrong, where, and what to do. The command line prints it and exits
    with code 2; code that uses palate as a library can catch it.
    """
