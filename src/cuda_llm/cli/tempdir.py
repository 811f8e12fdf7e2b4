"""Where temporary files go, found before anything else happens."""


def find_tempdir() -> None:
    """Make Python choose its folder for temporary files now; having none is no error yet.

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
