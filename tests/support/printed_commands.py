"""Where the product prints a command, what it prints, and what comes of running it as printed."""

import ast
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands import Ran

from cuda_llm.cli.app import SUBCOMMANDS

ROOT = Path(__file__).parents[2]
FOLDERS = ("agents", "graph", "hardware_profiles", "src/cuda_llm", "tasks", "tools", "traces")
TEMPLATES = {".j2", ".js", ".md", ".toml"}
RECORDED = (ROOT / "traces/examples", ROOT / "traces/runs")
NAMES = "|".join(SUBCOMMANDS)
HOLE = "{}"
BEGINS = re.compile(
    rf"(?<!\S)cd .+? && |cuda-llm (?:{NAMES})\b|\S+ -P -m cuda_llm\b(?!\.)"
    r"|(?<![\w./-])(?:sh (?=[{'/\w])|diff -r |pip3? install |apt(?:-get)? install |nvcc -O3 -)"
)
"""How a command begins; it goes on to the end of the line or to a backtick."""
VARIABLES = {"{{ verify }}": "cuda-llm evaluate {}", "{{ build_line }}": "nvcc {}"}
"""Commands that templates are given."""
BEGINS_IN_TEMPLATE = re.compile(
    rf"{BEGINS.pattern}|\{{\{{ (?:verify|build_line) \}}\}}|^(?:    |# )make\b"
)


@dataclass(frozen=True, order=True)
class Place:
    """A command in a file of the product, or in a command's `--help`."""

    where: str
    command: str
    """With `{}` for what is filled in."""

    def fits(self, line: str) -> bool:
        """Whether the line is what this place prints."""
        pattern = re.escape(self.command).replace(r"\ \{\}", "(?: .*)?").replace(r"\{\}", ".*")
        return re.fullmatch(pattern, line) is not None


def find_places() -> set[Place]:
    """Every place of the product that prints a command; docstrings print nothing."""
    found = set(places_of_help())
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            where = str(path.relative_to(ROOT))
            if any(path.is_relative_to(one) for one in RECORDED):
                continue
            if path.suffix == ".py":
                texts = texts_of(ast.parse(path.read_text()))
                found |= {Place(where, one) for text in texts for one in commands_in(text)}
            elif path.suffix in TEMPLATES:
                text = re.sub(r"\$\{[^}]*\}", HOLE, path.read_text())
                for one in commands_in(text, BEGINS_IN_TEMPLATE):
                    command = re.split(r"  +|\{%", one.strip("# "))[0]
                    found.add(Place(where, VARIABLES.get(command, command)))
    return found


def places_of_help() -> Iterator[Place]:
    """The commands that help names: of the program, of its commands and of their options."""
    waiting: list[tuple[str, Any]] = [
        (f"cuda-llm {name}", one.load(name)) for name, one in SUBCOMMANDS.items()
    ]
    for name, command in waiting:
        waiting += [
            (f"{name} {one}", part) for one, part in getattr(command, "commands", {}).items()
        ]
        texts = [command.help or "", *(getattr(one, "help", "") or "" for one in command.params)]
        yield from (Place(f"{name} --help", one) for text in texts for one in commands_in(text))


def commands_in(text: str, begins: re.Pattern[str] = BEGINS) -> Iterator[str]:
    """The command lines in a text, each to the end of its line or to a backtick."""
    for line in text.splitlines():
        if found := begins.search(line):
            yield line[found.start() :].partition("`")[0].strip()


def texts_of(tree: ast.AST) -> Iterator[str]:
    """Every text of a module, `{}` where something is filled in; a list of words is a text, too."""
    silent = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent |= {id(part) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) in silent:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(text_of, node.values))
        elif isinstance(node, ast.List | ast.Tuple):
            yield " ".join(map(text_of, node.elts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def text_of(node: ast.AST) -> str:
    """The text of a constant; a hole for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else HOLE


@dataclass(frozen=True)
class Shell:
    """A shell that runs printed lines in a folder."""

    folder: Path
    env: Mapping[str, str]

    def run(self, line: str, **env: str) -> Ran:
        """Run the line to its end."""
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        return Ran(done.returncode, done.stdout, done.stderr, 0.0, 0.0)

    def begin(self, line: str, is_under_way: Callable[[], bool], **env: str) -> Ran:
        """Run the line until it is under way, then press Ctrl-C, which the shell outlives."""
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"trap : INT\n{line}"],
            cwd=self.folder,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Whoever runs the tests in the background passes an ignored SIGINT on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            process_group=0,
        )
        while process.poll() is None and not is_under_way():
            time.sleep(0.02)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=240)
        return Ran(process.returncode, stdout, stderr, 0.0, 0.0)


def own_scripts() -> str:
    """The folder of the installed command."""
    folder = Path(sys.executable).parent
    assert (folder / "cuda-llm").is_file(), f"cuda-llm is not installed beside {sys.executable}"
    return str(folder)
