"""How many tokens a text has, without a tokeniser: an estimate that errs upwards.

Tokenisers differ and load their tables from the network. All of them split text into words, digits,
punctuation and white space before anything else, so those pieces are counted: a token for every
four letters of a word begun, for every digit, every punctuation mark, every run of blanks but a
single space, and for every byte of what is not ASCII. The estimate of two texts together is at most
the sum of both.
"""

import re

_PIECES = re.compile(r"([A-Za-z]+)|( )(?=\S)|(\n[ \t]*|[ \t\r\f\v]+)|([^\x00-\x7f]+)|.", re.DOTALL)


def count_tokens(text: str) -> int:
    """Tokens of `text`, rather too many than too few."""
    total = 0
    for match in _PIECES.finditer(text):
        word, space, _, foreign = match.groups()
        if word:
            total += -(-len(word) // 4)
        elif foreign:
            total += len(foreign.encode(errors="surrogatepass"))
        elif not space:
            total += 1
    return total
