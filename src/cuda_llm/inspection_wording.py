"""What an inspection found, in words; and that there was none, which must not read as clean."""

from collections.abc import Iterator, Sequence

NOT_INSPECTED = "not inspected: "
"""Begins the note of an inspection that could not be made on the GPU."""


def why_not_inspected(notes: Sequence[str]) -> str:
    """Return why a kernel was not inspected; empty where it was."""
    found = (note for note in notes if note.startswith(NOT_INSPECTED))
    return next(found, "").removeprefix(NOT_INSPECTED)


def describe_inspection(code: str, notes: Sequence[str]) -> str:
    """Return the code of the verdict or that nothing was found, with the notes, on one line."""
    found = code or ("" if why_not_inspected(notes) else "nothing found")
    return "; ".join(filter(None, (found, *notes)))


def inspection_lines(name: str, code: str, notes: Sequence[str]) -> Iterator[str]:
    """Yield what who watches a run has to know of an inspection; nothing where all went well."""
    if code:
        yield f"{name} is not crowned: {code}"
    elif why := why_not_inspected(notes):
        yield f"{name} is not inspected: {why}"
