"""What an inspection found, in words; and that there was none, which must not read as clean."""

from collections.abc import Iterator, Sequence


def describe_inspection(code: str, notes: Sequence[str], not_inspected: str) -> str:
    """Return the code of the verdict or that nothing was found, with the notes, on one line."""
    missed = f"not inspected: {not_inspected}" if not_inspected else ""
    found = code or ("" if missed else "nothing found")
    return "; ".join(filter(None, (found, missed, *notes)))


def inspection_lines(name: str, code: str, not_inspected: str) -> Iterator[str]:
    """Yield what who watches a run has to know of an inspection; nothing where all went well."""
    if code:
        yield f"{name} is not crowned: {code}"
    elif not_inspected:
        yield f"{name} is not inspected: {not_inspected}"
