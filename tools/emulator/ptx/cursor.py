"""A place in a token stream."""

from cuda_llm.tools.emulator.ptx.tokenise import PtxError, Tokens


class Cursor:
    """Reads tokens one after another."""

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
