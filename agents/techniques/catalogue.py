"""The catalogue of directions: what a candidate may be told to try, as a table."""

from cuda_llm.agents.techniques.changes import CHANGES
from cuda_llm.agents.techniques.structures import STRUCTURES
from cuda_llm.agents.techniques.technique import REPAIR, Technique

REPAIRS = tuple(
    Technique(text=text, kinds=REPAIR)
    for text in (
        "the smallest change that mends what failed; keep the structure",
        "rewrite the part that failed in the simplest form that is surely right, keep the rest",
        "start over with the simplest correct kernel: one thread an output, a bounds check, no "
        "shared memory, no vector access",
        "keep the idea, but prove every index: guard each load and store, handle extents that are "
        "1, odd, or smaller than a tile",
        "keep the idea, but check the order of things: what is initialised before it is read, and "
        "a barrier that all threads reach between writing and reading",
        "the same result by another structure that avoids the failing construct altogether",
    )
)

CATALOGUE = (*STRUCTURES, *CHANGES, *REPAIRS)

TWISTS = (
    "small blocks (64 to 128 threads)",
    "large blocks (512 threads or more)",
    "one output a thread",
    "four outputs a thread",
    "eight or more outputs a thread",
    "as few registers as possible",
    "loops with bounds known when compiling, by templates",
    "a separate path for extents that are multiples of four",
)
"""Added to a direction when the catalogue is shorter than the round."""
