"""A model's critique of one kernel as it was passed on, what was dropped or corrected of it,
and both in words.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class Objection(StrEnum):
    """Why a part of a critique is dropped or corrected before it is passed on."""

    UNKNOWN = "unknown"
    """The profile knows no such bottleneck: its first stands in its place."""
    NEXT_TO_NOTHING = "next-to-nothing"
    """The profile's terms leave hardly anything to save there."""
    BEYOND_TERM = "beyond-term"
    """More gain than taking the term away can save."""
    BEYOND_ROOFLINE = "beyond-roofline"
    """More gain than is left until the attainable time."""
    HAS_ALREADY = "has-already"
    """The kernel's text shows all that the change brings."""
    ORDERED_BEFORE = "ordered-before"
    """An order of this run said the same."""
    AGAINST_HINT = "against-hint"
    """A hint of the same prompt, or a figure of the profile, says that it is of no use."""
    AGAINST_HARDWARE = "against-hardware"
    """The hardware has it not, or its arithmetic rules it out."""
    NO_EVIDENCE = "no-evidence"
    """No attempt changed that and gained nothing."""
    CONFOUNDED = "confounded"
    """The attempt changed several things at once, which condemns none of them."""
    KNOWN = "known"
    """The diagnosis says the same."""


@dataclass(frozen=True, kw_only=True)
class Correction:
    """One part of a critique that did not stand as it was said."""

    part: Literal["bottleneck", "gain", "change", "avoid"]
    why: Objection
    said: str
    """In the model's words or figures: text from outside."""
    most: float = 0.0
    """Part of the kernel's time, 0 to 1, that the profile allows; 0 where it is about none."""


@dataclass(frozen=True, kw_only=True)
class CheckedCritique:
    """A model's critique of one kernel as far as the profile let it stand."""

    about: str
    """Id of the attempt."""
    bottleneck: str = ""
    """Code of the bottleneck, or of the verdict of one that failed."""
    change: str
    gain: float = 0.0
    """Part of the time, 0 to 1, that the change should save, as it is passed on."""
    corrections: tuple[Correction, ...] = ()

    @property
    def passed_on(self) -> bool:
        """Whether its change became a hint."""
        return not any(
            one.part == "change" or one.why is Objection.NEXT_TO_NOTHING for one in self.corrections
        )


OBJECTIONS: Mapping[str, str] = {
    "unknown": "the profile knows no such bottleneck",
    "next-to-nothing": "taking it away would save {most}",
    "beyond-term": "taking it away saves {most} at most",
    "beyond-roofline": "{most} is left until the attainable time",
    "has-already": "the kernel has it already",
    "ordered-before": "it was ordered before",
    "against-hint": "a hint or the profile says it is of no use",
    "against-hardware": "the hardware has it not, or cannot gain by it",
    "no-evidence": "no attempt shows it",
    "confounded": "that attempt changed several things at once",
    "known": "the diagnosis says so too",
}
"""By `Objection`: why it did not stand, in words."""


def describe_critique(one: CheckedCritique) -> Iterator[str]:
    """Yield what a critique asks for, then what of it did not stand, and why."""
    gain = f", to save {one.gain:.0%}" if one.gain else ""
    state = "" if one.passed_on else ", dropped"
    yield f"- critique of {one.about}{state}: {one.bottleneck}: {one.change}{gain}"
    for it in one.corrections:
        unit = "% expected" if it.part == "gain" else ""
        what = "the change" if it.part == "change" else f"{it.part} `{it.said}{unit}`"
        yield f"  {what}: {OBJECTIONS[it.why].format(most=f'{it.most:.0%}')}"
