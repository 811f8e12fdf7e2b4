"""PTX text as tokens that remember where they stood, and a place among them."""

import re
from bisect import bisect_right
from dataclasses import dataclass

from cuda_llm.errors import InfrastructureError

_SECTION = re.compile(r"^[ \t]*\.section\b[^{]*\{[^}]*\}", re.MULTILINE)
_TOKEN = re.compile(
    r"""(?:\s|//[^\n]*|/\*.*?\*/)*
    ( "(?:[^"\\]|\\.)*"
    | 0[fF][0-9a-fA-F]{8}\b | 0[dD][0-9a-fA-F]{16}\b | 0[xX][0-9a-fA-F]+U?
    | \d+\.\d*(?:[eE][+-]?\d+)? | \d+U?
    | \.\w+ | [A-Za-z_$%](?:[\w$.]|::)*
    | \S | \Z )""",
    re.VERBOSE | re.DOTALL,
)


class PtxError(InfrastructureError):
    """PTX that we cannot read. nvcc accepted it, so the fault is ours."""

    def __init__(self, line: int, detail: str) -> None:
        super().__init__("emulator", f"PTX line {line}: {detail}")
        self.line = line


@dataclass(frozen=True)
class Tokens:
    """Token texts, and the offset of each in the file."""

    texts: list[str]
    starts: list[int]
    newlines: list[int]

    def line(self, index: int) -> int:
        """Return the line number, from 1, of a token; of the last line beyond the end."""
        if index >= len(self.starts):
            return len(self.newlines) + 1
        return bisect_right(self.newlines, self.starts[index]) + 1


def tokenise(text: str) -> Tokens:
    """Split PTX into tokens. Comments and debug sections are skipped."""
    text = _SECTION.sub(lambda match: "\n" * match[0].count("\n"), text)
    texts: list[str] = []
    starts: list[int] = []
    for match in _TOKEN.finditer(text):
        if match[1]:
            texts.append(match[1])
            starts.append(match.start(1))
    newlines = [match.start() for match in re.finditer("\n", text)]
    return Tokens(texts=texts, starts=starts, newlines=newlines)


class Cursor:
    """Reads tokens in order."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.texts = tokens.texts
        self.index = 0

    def peek(self) -> str:
        """Return the next token, empty at the end."""
        return self.texts[self.index] if self.index < len(self.texts) else ""

    def take(self) -> str:
        """Return the next token, passing it."""
        if self.index >= len(self.texts):
            raise self.error("the file ends too early")
        text = self.texts[self.index]
        self.index += 1
        return text

    def accept(self, text: str) -> bool:
        """Pass the next token if it is `text`."""
        if self.peek() == text:
            self.index += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Pass `text`, or fail."""
        if not self.accept(text):
            raise self.error(f"expected `{text}`, found `{self.peek()}`")

    def number(self) -> int:
        """Pass an integer, with its sign."""
        negative = self.accept("-")
        text = self.take()
        try:
            value = int(text.rstrip("U"), 0)
        except ValueError:
            raise self.error(f"expected a number, found `{text}`") from None
        return -value if negative else value

    def skip_past(self, text: str) -> None:
        """Pass everything up to and including `text`."""
        while self.take() != text:
            pass

    def error(self, detail: str) -> PtxError:
        """Return an error at the token last taken."""
        return PtxError(self.tokens.line(max(self.index - 1, 0)), detail)
