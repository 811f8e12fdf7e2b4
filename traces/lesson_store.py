"""The store of orders of earlier runs: a file of JSON lines that processes share without a server.

A line is one `TriedOrder`. Writers take turns by a lock on the file; a reader takes none, and skips
the line that a killed writer left torn.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cuda_llm.atomic_file import write_atomically
from cuda_llm.codec import decode, encode
from cuda_llm.lessons import TriedOrder

MOST_BYTES = 1 << 20
"""Largest size of the store: some 3,000 orders. An order beyond that drops the older half."""


def read_orders(store: Path) -> tuple[TriedOrder, ...]:
    """Return the orders of the store, oldest first; none without a store. Raises OSError.

    What is no order, or of a version with other fields, is skipped.
    """
    try:
        lines = store.read_bytes().splitlines()
    except FileNotFoundError:
        return ()
    found = map(_read_line, lines)
    return tuple(one for one in found if one is not None)


def _read_line(line: bytes) -> TriedOrder | None:
    try:
        return decode(TriedOrder, json.loads(line))
    except (ValueError, RecursionError):
        return None


def add_orders(store: Path, orders: Sequence[TriedOrder]) -> None:
    """Append the orders. Raises OSError where the store cannot be written or locked."""
    if not orders:
        return
    text = b"".join(json.dumps(encode(one)).encode() + b"\n" for one in orders)
    store.parent.mkdir(parents=True, exist_ok=True)
    with _locked(store) as file:
        size = os.fstat(file).st_size
        kept = os.pread(file, size, 0)
        if kept and not kept.endswith(b"\n"):
            # The end of the line that a killed writer began.
            text = b"\n" + text
        if size + len(text) > MOST_BYTES:
            write_atomically(store, _newest(kept + text))
            return
        left = memoryview(text)
        while left:
            left = left[os.write(file, left) :]


def _newest(text: bytes) -> bytes:
    """Return the newest whole lines that take half of the store."""
    lines = text.splitlines(keepends=True)
    while len(lines) > 1 and sum(map(len, lines)) > MOST_BYTES // 2:
        lines = lines[max(1, len(lines) // 8) :]
    return b"".join(lines)


@contextmanager
def _locked(store: Path) -> Iterator[int]:
    """Open the store for appending once no other writer holds it."""
    while True:
        file = os.open(store, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            # The writer before may have put a shorter store in the place of this one.
            if os.path.samestat(os.fstat(file), os.stat(store)):
                yield file
                return
        except FileNotFoundError:
            pass
        finally:
            # Closing is not enough where another thread has forked meanwhile.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)
