"""Places: a line of source, a thread of a launch."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SourceSpot:
    """One line of a source file."""

    file: str
    """Name as the user wrote it, without the private folder it was compiled in."""
    line: int
    text: str = ""
    """The line itself, stripped; empty when the file is not at hand."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class ThreadSpot:
    """One thread of one launch."""

    kernel: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.kernel} block {self.block} thread {self.thread}"
