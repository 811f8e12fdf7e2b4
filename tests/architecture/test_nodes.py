"""Nodes of the graph are short and free of what belongs elsewhere."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cuda_llm.graph.candidate import stage_node
from cuda_llm.graph.runs.build_graph import NODES

ROOT = Path(__file__).parents[2]
MOST_LINES = 15

nodes = pytest.mark.parametrize(
    "node", [*NODES.values(), stage_node("compile")], ids=[*NODES, "stage"]
)


def parsed(node: Callable[..., Any]) -> ast.AsyncFunctionDef:
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(node))).body
    assert isinstance(found, ast.AsyncFunctionDef)
    return found


@nodes
def test_a_node_is_short(node: Callable[..., Any]) -> None:
    """Counted are the lines below the docstring."""
    docstring, *body = parsed(node).body
    assert (body[-1].end_lineno or 0) - (docstring.end_lineno or 0) < MOST_LINES


@nodes
def test_a_node_catches_nothing(node: Callable[..., Any]) -> None:
    assert not [one for one in ast.walk(parsed(node)) if isinstance(one, (ast.Try, ast.TryStar))]


def test_every_node_of_the_graph_is_looked_at() -> None:
    """Nodes are bound in few places; a new one must go through them."""
    adding = [
        path.name
        for path in (ROOT / "graph").rglob("*.py")
        if "add_node(" in path.read_text(encoding="utf-8")
    ]
    assert sorted(adding) == ["build_graph.py", "candidate.py"]
