"""What an attempt says of its kernel."""

import pytest

from cuda_llm.outcomes import InfraFailed, component_of
from cuda_llm.search import Attempt, Kind


def judged(code: str) -> Attempt:
    return Attempt(id="r1-c1", round=1, index=1, kind=Kind.FIRST, written_by="model", code=code)


@pytest.mark.parametrize(
    ("code", "infra_failed", "about_its_kernel"),
    [
        (InfraFailed(component="gpu_host", detail="").code, True, False),
        ("DUPLICATE", False, False),
        ("QUARANTINED", False, True),
        ("WRONG_RESULT", False, True),
        ("PASSED", False, True),
    ],
)
def test_broken_machinery_and_a_repeat_say_nothing_about_the_kernel(
    code: str, infra_failed: bool, about_its_kernel: bool
) -> None:
    attempt = judged(code)
    assert attempt.infra_failed is infra_failed
    assert attempt.is_about_its_kernel is about_its_kernel


def test_the_code_of_broken_machinery_tells_which_it_is() -> None:
    broken = InfraFailed(component="gpu_host", detail="no sign of life")
    assert component_of(broken.code) == "gpu_host"
    assert component_of("WRONG_RESULT") is None
