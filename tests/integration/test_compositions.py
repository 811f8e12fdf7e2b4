"""Two honest kernels of one task behind one `solve` pass the judge, each at some of the sizes."""

from pathlib import Path

import pytest
from corpus_sample import sample
from small_tasks import with_one_bench_size

from cuda_llm import judge
from cuda_llm.agents.composition import CompositionRefused, compose
from cuda_llm.agents.playbook.generator import open_playbook
from cuda_llm.agents.playbook.kernels import valid_points
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.signature import signature
from cuda_llm.tasks.task import Task
from cuda_llm.verdict_wording import describe

HONEST = Path(__file__).parents[1] / "fixtures/honest"
CONDITIONS = {
    "vector_add": "n < 5000",
    "reduction": "n < 5000",
    "histogram": "n < 10000",
    "matrix_multiplication": "(long long)M * N < 4000",
    "matrix_transpose": "(long long)rows * cols < 20000",
    "conv2d": "(long long)H * W < 3000",
}
"""Edge sizes lie on both sides."""
RING = 3
"""The other kernel of a pair is so many further on: each is once for the small, once for the large
sizes."""
PAIRS = [
    (small, files[(at + RING) % len(files)])
    for folder in map(HONEST.joinpath, CONDITIONS)
    for files in [sorted(folder.glob("*.cu"))]
    for at, small in enumerate(files)
]
JUDGED = sample(PAIRS, every=60)
"""That all of them compose as text is a property of `compose`, tested beside it."""


def judged(task: Task, small: str, large: str) -> Verdict:
    source = compose(
        small,
        large,
        signature=signature(task),
        arguments=[one.name for one in task.arguments],
        condition=CONDITIONS[task.name],
    )
    assert isinstance(source, str), source
    return judge(with_one_bench_size(task), source, device="emulated").verdict


@pytest.mark.parametrize(
    ("small", "large"), JUDGED, ids=[f"{pair[0].parent.name}/{pair[0].stem}" for pair in JUDGED]
)
def test_two_honest_kernels_pass_as_one(small: Path, large: Path) -> None:
    verdict = judged(load_task(small.parent.name), small.read_text(), large.read_text())
    assert isinstance(verdict, Passed), describe(verdict)


STEERING = ("histogram", "reduction")
"""Their playbooks define a macro that tells `cooperative_groups.h` what to include."""
PLAYED = sorted(CONDITIONS.keys() - set(STEERING))


@pytest.mark.parametrize("name", STEERING)
def test_a_playbook_that_steers_a_header_is_not_put_together(name: str) -> None:
    task = load_task(name)
    kernels = open_playbook(task)
    source = kernels.write(list(valid_points(kernels.space))[-1])
    names = [one.name for one in task.arguments]
    refused = compose(
        source, source, signature=signature(task), arguments=names, condition=CONDITIONS[name]
    )
    assert isinstance(refused, CompositionRefused)
    assert refused.fault == "macro_before_include"


@pytest.mark.evidence
@pytest.mark.parametrize("name", PLAYED)
def test_two_kernels_of_a_playbook_pass_as_one(name: str) -> None:
    task = load_task(name)
    kernels = open_playbook(task)
    points = list(valid_points(kernels.space))
    verdict = judged(task, kernels.write(points[0]), kernels.write(points[-1]))
    assert isinstance(verdict, Passed), describe(verdict)
