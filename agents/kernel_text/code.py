"""C++ text without what is not code, line for line."""

from functools import lru_cache

from cuda_llm.agents.kernel_text.tokens import Token, TokenKind, tokenise


def blank_comments(source: str) -> str:
    """`source` with comments blanked, line numbers kept. Strings stay: inline PTX lives in them."""
    return _blank(source, {TokenKind.COMMENT})


@lru_cache(maxsize=16)
def blank_strings(source: str) -> str:
    """`source` with comments and strings blanked, so that what they hold is no code."""
    return _blank(source, {TokenKind.COMMENT, TokenKind.LITERAL})


def _blank(source: str, kinds: set[TokenKind]) -> str:
    return "".join(
        _gap(source, one) if one.kind in kinds else source[one.start : one.end]
        for one in tokenise(source)
    )


def _gap(source: str, token: Token) -> str:
    quotes = '""' if token.kind == TokenKind.LITERAL else " "
    return quotes + "\n" * source.count("\n", token.start, token.end)
