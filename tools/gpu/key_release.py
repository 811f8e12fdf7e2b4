"""Keys handed out while a batch runs: each when the GPU asks for it, and not before."""

import mmap
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from cuda_llm.tools.gpu.protocol import KeyRelease, Report

_ASKED, _HANDED, _KEY = (
    getattr(KeyRelease, name).offset // 8 for name in ("asked", "handed", "key")
)
_BEGIN, _END = Report.key_release.offset, Report.key_release.offset + Report.key_release.size
_BETWEEN = threading.Lock()
_LOOKS = 500
"""Between two looks at what else may have happened: some 50 us."""


def release_keys(
    report: mmap.mmap,
    keys: Sequence[bytes],
    tell: Callable[[int], None],
    is_over: Callable[[], bool],
    limit_s: float,
) -> None:
    """Answer two questions a step: for the key of its inputs, and for that of its tags.

    With the first, from the second step on, come the tags of the step before: `tell` is called with
    its number. The questions come in order, each once, and the first comes after `clear_release`.
    Returns early where it `is_over`. Raises TimeoutError.
    """
    deadline = time.monotonic() + limit_s
    with memoryview(report) as whole, whole[_BEGIN:_END] as part, part.cast("Q") as words:
        for number, key in enumerate(_halves(keys), 1):
            looks = 0
            while words[_ASKED] != number:
                looks += 1
                if looks % _LOOKS == 0:
                    if is_over():
                        return
                    if time.monotonic() > deadline:
                        raise TimeoutError
            if number % 2 == 1 and number > 1:
                tell(number // 2 - 1)
            words[_KEY] = key
            # Not every processor's stores are seen in order; those on either side of a lock are.
            with _BETWEEN:
                pass
            words[_HANDED] = number


def clear_release(report: mmap.mmap) -> None:
    """Nothing is asked and nothing is handed out."""
    report[_BEGIN:_END] = bytes(_END - _BEGIN)


def _halves(keys: Sequence[bytes]) -> Iterator[int]:
    for key in keys:
        yield int.from_bytes(key[:8], "little")
        yield int.from_bytes(key[8:], "little")
