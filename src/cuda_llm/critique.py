"""A model's critique of one kernel as passed on to the next prompt, the parts of the critique that
were dropped or corrected, and the words for both.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

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
"""By `Objection`: why a part was dropped or corrected."""


class Objection(StrEnum):
    """Why a part of a critique is dropped or corrected before it is passed on."""

    UNKNOWN = "unknown"
    """The profile has no such bottleneck: the profile's first bottleneck replaces it."""
    NEXT_TO_NOTHING = "next-to-nothing"
    """By the profile's terms, fixing the bottleneck would save hardly anything."""
    BEYOND_TERM = "beyond-term"
    """The expected gain is more than removing the term can save."""
    BEYOND_ROOFLINE = "beyond-roofline"
    """The expected gain goes below the attainable time."""
    HAS_ALREADY = "has-already"
    """The kernel's text already shows what a tag of the change says that the change brings."""
    ORDERED_BEFORE = "ordered-before"
    """An earlier brief of this run ordered the same change."""
    AGAINST_HINT = "against-hint"
    """A hint's rule of thumb says that the change is of no use: a reason of runs until 2026-11-29,
    half of whose changes were refused by such a rule, the best ones among them."""
    AGAINST_HARDWARE = "against-hardware"
    """The hardware does not have the feature, or cannot gain by the change."""
    NO_EVIDENCE = "no-evidence"
    """No attempt made that change without a gain."""
    CONFOUNDED = "confounded"
    """The attempt changed several things at once, which speaks against none of them."""
    KNOWN = "known"
    """The diagnosis says the same."""


@dataclass(frozen=True, kw_only=True)
class Correction:
    """One part of a critique that was dropped or corrected."""

    part: Literal["bottleneck", "gain", "change", "brings", "avoid"]
    why: Objection
    said: str
    """The part in the model's words or figures: text from outside."""
    most: float = 0.0
    """Largest saving that the profile allows, as a part of the kernel's time, 0 to 1; 0 where the
    part is not about a saving."""


@dataclass(frozen=True, kw_only=True)
class CheckedCritique:
    """A model's critique of one kernel after the check against the profile."""

    about: str
    """Id of the attempt."""
    bottleneck: str = ""
    """Code of the bottleneck, or of the verdict of a kernel that failed."""
    change: str
    gain: float = 0.0
    """Expected saving of the change as passed on, as a part of the time, 0 to 1."""
    brings: tuple[str, ...] = ()
    """Techniques that the change adds, as `agents.techniques.objections.BRINGS` names them."""
    avoid: tuple[str, ...] = ()
    """Changes that were tried without gain, each with its outcome."""
    corrections: tuple[Correction, ...] = ()

    @property
    def refusal(self) -> Correction | None:
        """The reason why nobody is ordered to make the change; None where the change is an
        order."""
        return next(
            (
                one
                for one in self.corrections
                if one.part == "change" or one.why is Objection.NEXT_TO_NOTHING
            ),
            None,
        )

    @property
    def passed_on(self) -> bool:
        """Whether the change of the critique is an order of the next round."""
        return self.refusal is None


def describe_objection(it: Correction) -> str:
    """Return why a part of a critique was dropped or corrected, in a few words."""
    return OBJECTIONS[it.why].format(most=f"{it.most:.0%}")


def describe_critique(one: CheckedCritique) -> Iterator[str]:
    """Yield the change that a critique asks for, then each part dropped or corrected, and why."""
    gain = f", to save {one.gain:.0%}" if one.gain else ""
    state = "" if one.passed_on else ", dropped"
    yield f"- critique of {one.about}{state}: {one.bottleneck}: {one.change}{gain}"
    for it in one.corrections:
        unit = "% expected" if it.part == "gain" else ""
        what = "the change" if it.part == "change" else f"{it.part} `{it.said}{unit}`"
        yield f"  {what}: {describe_objection(it)}"
