"""A critique in words: what it asks for, and what of it did not stand."""

import pytest

from cuda_llm.codec import decode, encode
from cuda_llm.critique import (
    OBJECTIONS,
    CheckedCritique,
    Correction,
    Objection,
    describe_critique,
)

CAPPED = Correction(part="gain", why=Objection.BEYOND_TERM, said="40", most=0.32)


def critique(*corrections: Correction) -> CheckedCritique:
    return CheckedCritique(
        about="r2-c1",
        bottleneck="shared_bandwidth",
        change="Keep more in registers",
        gain=0.32,
        corrections=corrections,
    )


def test_a_corrected_critique_tells_what_it_said_and_what_is_allowed() -> None:
    first, second = describe_critique(critique(CAPPED))
    assert first == ("- critique of r2-c1: shared_bandwidth: Keep more in registers, to save 32%")
    assert second == "  gain `40% expected`: taking it away saves 32% at most"


@pytest.mark.parametrize(
    ("part", "why", "passed_on"),
    [
        ("change", Objection.HAS_ALREADY, False),
        ("bottleneck", Objection.NEXT_TO_NOTHING, False),
        ("bottleneck", Objection.UNKNOWN, True),
        ("avoid", Objection.CONFOUNDED, True),
    ],
)
def test_only_what_is_of_no_use_as_a_whole_is_dropped(
    part: str, why: Objection, passed_on: bool
) -> None:
    one = critique(Correction(part=part, why=why, said="it"))  # type: ignore[arg-type]
    assert one.passed_on is passed_on
    assert (", dropped: " in next(describe_critique(one))) is not passed_on


def test_every_objection_has_words_and_travels() -> None:
    assert OBJECTIONS.keys() == set(Objection)
    for why in Objection:
        one = critique(Correction(part="avoid", why=why, said="it"))
        assert decode(CheckedCritique, encode(one)) == one
