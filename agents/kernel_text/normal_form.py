"""When two sources are the same kernel: equal but for comments and layout."""

import hashlib
from collections.abc import Iterator

from cuda_llm.agents.kernel_text.tokens import TokenKind, tokenise


def normal_sha(source: str) -> str:
    """Hash of `source` without comments and layout.

    Layout that means something is kept: where a preprocessor line begins and ends, and the gap
    between the name and the body of `#define F (x)`. Empty for a source without any token.
    """
    digest = hashlib.blake2b(digest_size=16)
    empty = True
    for part in _parts(source):
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
        empty = False
    return "" if empty else digest.hexdigest()


def _parts(source: str) -> Iterator[str]:
    line: list[str] = []
    blank_before = False
    for token in tokenise(source):
        if token.kind == TokenKind.NEWLINE:
            if line[:1] == ["#"]:
                yield "\n"
            line = []
        elif token.is_blank:
            blank_before = True
            continue
        else:
            if not line and token.text == "#":
                yield "\n"
            elif token.text == "(" and line[:2] == ["#", "define"] and len(line) == 3:
                yield " " if blank_before else ""
            yield token.text
            line = [*line, token.text][:4]
        blank_before = False
    if line[:1] == ["#"]:
        yield "\n"
