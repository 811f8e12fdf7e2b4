"""What relieves a bottleneck on this hardware, and what cannot."""

from collections.abc import Set

from cuda_llm.agents.bottlenecks import words_for
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.catalogue import CATALOGUE
from cuda_llm.agents.techniques.technique import Technique, fits
from cuda_llm.profile import Bottleneck, Profile
from cuda_llm.search import Kind

MOST = 3


def techniques_against(code: str, situation: Situation, used: Set[str]) -> tuple[Technique, ...]:
    """Changes that relieve `code`, fit the task, exist on this hardware and are not `used` yet."""
    found = [
        one
        for one in CATALOGUE
        if code in one.against
        and Kind.IMPROVE in one.kinds
        and one.shown_by not in used
        and fits(one, situation)
    ]
    return tuple(sorted(found, key=lambda one: one.against.index(code))[:MOST])


def ruled_out(profile: Profile, dominating: Bottleneck) -> tuple[str, ...]:
    """What the figures say cannot help, whatever dominates."""
    words = words_for(dominating.code)
    found = list(words.no_use)
    if profile.launches:
        longest = max(profile.launches, key=lambda launch: launch.time_us)
        figures = longest.figures
        if longest.occupancy >= 0.95 and not words.names_occupancy:
            found.append("more occupancy")
        if figures.get("useful_byte_share", 0.0) >= 0.99:
            found.append("coalescing further: every byte fetched is used")
        if figures.get("worst_bank_ways") == 1.0:
            found.append("padding shared memory: there are no bank conflicts")
    return tuple(found)
