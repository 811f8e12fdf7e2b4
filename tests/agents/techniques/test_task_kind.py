"""The kind of a task that is declared here: rules that no shipped task needs."""

from dataclasses import replace

import pytest

from cuda_llm.agents.techniques.task_kind import TaskKind, kind_of, length_of
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import ArgumentRole, Task, TaskArgument

DIMS = {"m": 4096, "n": 1024, "nnz": 65536, "k": 8}


def declared(
    *arguments: str, terms: str = "1", flops: str = "2 * m * n", linear: bool = False
) -> Task:
    """A task whose arguments are spelled `role dtype shape`, one named after its place."""
    plain = load_task("softmax")
    spelled = [one.split(maxsplit=2) for one in arguments]
    made = tuple(
        TaskArgument(
            name=f"a{place}",
            role=ArgumentRole(role),
            dtype=dtype,
            shape=tuple(extent.strip() for extent in shape[0].split(",")) if shape else (),
        )
        for place, (role, dtype, *shape) in enumerate(spelled)
    )
    return replace(
        plain,
        arguments=made,
        sizes=replace(plain.sizes, bench=(DIMS,)),
        tolerance=replace(plain.tolerance, terms=terms),
        roofline=replace(plain.roofline, flops=flops),
        linear=linear,
    )


KINDS = {
    TaskKind.MATVEC: declared("in float32 m, n", "in float32 n", "out float32 m", terms="n"),
    TaskKind.SPARSE: declared(
        *("in int32 m + 1", "in int32 nnz", "in float32 nnz", "in float32 n", "out float32 m"),
        terms="n",
    ),
    TaskKind.SOLVER: declared(
        *("in float32 n, n", "in float32 n", "out float32 n"), flops="n * n * n // 3"
    ),
    TaskKind.ROWS: declared("in float32 m, n", "out float32 m", terms="n"),
    TaskKind.COLUMNS: declared("in float32 m, n", "out float32 n", terms="m"),
    TaskKind.SCAN: declared("in float32 m, n", "out float32 m, n", terms="n", linear=True),
    TaskKind.CONVOLUTION: declared(
        *("in float32 m, n", "in float32 k, k", "out float32 m, n"), terms="k", linear=True
    ),
    TaskKind.GENERATOR: declared("scalar float32", "out float32 n"),
    TaskKind.ELEMENTWISE: declared("in float32 m, n", "in float32 n", "out float32 m, n"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_roles_shapes_and_terms_tell_the_kind(kind: TaskKind) -> None:
    assert kind_of(KINDS[kind]) == kind


def test_a_product_with_a_vector_whose_rows_have_a_scale_a_block_is_no_convolution() -> None:
    """Rows of `32 * k` whole weights and of `k` scales share the dim k with the vector."""
    arrays = ("in int8 m, 32 * k", "in float32 m, k", "in float32 32 * k", "out float32 m")
    task = declared(*arrays, terms="32 * k", flops="64 * m * k")
    assert kind_of(task) is TaskKind.MATVEC


def test_attention_with_other_lengths_of_queries_and_keys_is_attention() -> None:
    keys = ("in float32 n, k", "in float32 n, k")
    task = declared("in float32 m, k", *keys, "out float32 m, k", terms="n", flops="4 * m * n * k")
    assert kind_of(task) is TaskKind.ATTENTION


def test_a_row_is_what_is_reduced_together() -> None:
    assert length_of(KINDS[TaskKind.ROWS], DIMS) == 1024
    assert length_of(KINDS[TaskKind.COLUMNS], DIMS) == 4096
    assert length_of(load_task("layer_norm"), load_task("layer_norm").sizes.bench[0]) == 4
