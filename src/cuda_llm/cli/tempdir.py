"""Where temporary files go, found before anything else happens."""


def find_tempdir() -> None:
    """Have Python choose the folder now. Where there is none, who needs one says so.

    It tries each by writing a file, which a Ctrl-C in just that moment would leave behind: so the
    signal waits.
    """
    import contextlib
    import signal
    import tempfile

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with contextlib.suppress(FileNotFoundError):
            tempfile.gettempdir()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
