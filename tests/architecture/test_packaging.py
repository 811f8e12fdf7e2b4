"""What the repository holds is what a user gets."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
IMPORTED_AS = {"markdown-it-py": "markdown_it", "pyelftools": "elftools"}
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]


def plain(requirement: str) -> str:
    """The name alone."""
    return re.split(r"[^A-Za-z0-9-]", requirement)[0]


def test_every_package_folder_is_listed() -> None:
    found = set()
    for name, folder in SETUPTOOLS["package-dir"].items():
        for init in (ROOT / folder).rglob("__init__.py"):
            inside = init.parent.relative_to(ROOT / folder).parts
            found.add(".".join((name, *inside)))
    assert found == set(SETUPTOOLS["packages"])


def test_every_top_level_folder_is_linked_for_type_checkers() -> None:
    for name, folder in SETUPTOOLS["package-dir"].items():
        if name != "cuda_llm":
            link = ROOT / "src/cuda_llm" / name.removeprefix("cuda_llm.")
            assert link.resolve() == (ROOT / folder).resolve()


def test_every_dependency_is_used() -> None:
    """Somewhere in what ships, under the name that it is imported by."""
    text = "\n".join(
        file.read_text(encoding="utf-8")
        for folder in SETUPTOOLS["package-dir"].values()
        for file in (ROOT / folder).rglob("*.py")
    )
    imported = set(re.findall(r"^\s*(?:from|import) (\w+(?:\.\w+)*)", text, re.MULTILINE))
    names = {name.replace(".", "_") for name in imported}
    unused = [
        one
        for one in PYPROJECT["project"]["dependencies"]
        if not any(
            name.startswith(IMPORTED_AS.get(plain(one), plain(one).replace("-", "_")))
            for name in names
        )
    ]
    assert unused == []


def test_the_wheel_holds_every_file_the_program_reads(tmp_path: Path) -> None:
    """Built outside the checkout, so that nothing is left in it."""
    copy = tmp_path / "checkout"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, tracked):
        source = ROOT / name
        if source.is_file() and not source.is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(source.read_bytes())
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", str(tmp_path), str(copy)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    needed = set()
    for name in filter(None, tracked):
        parts = Path(name).parts
        if not (ROOT / name).is_file() or (ROOT / name).is_symlink():
            continue
        if parts[:2] == ("src", "cuda_llm"):
            needed.add("/".join(("cuda_llm", *parts[2:])))
        elif f"cuda_llm.{parts[0]}" in SETUPTOOLS["package-dir"]:
            needed.add("/".join(("cuda_llm", *parts)))
    needed = {n for n in needed if not n.endswith("README.md") and "/examples/" not in n}
    assert needed <= packed


def test_the_locks_pin_every_dependency_with_hashes() -> None:
    for lock in ("requirements.lock", "requirements-toolkit.lock"):
        text = (ROOT / lock).read_text()
        entries = [line for line in text.splitlines() if line and line[0].isalnum()]
        assert entries
        assert all("==" in entry and entry.endswith("\\") for entry in entries)
        assert text.count("--hash=sha256:") >= len(entries)
        assert "://" not in text


def test_the_lock_satisfies_the_declared_dependencies() -> None:
    lock = (ROOT / "requirements.lock").read_text().lower()
    for requirement in PYPROJECT["project"]["dependencies"]:
        name = requirement.split(">")[0].strip()
        assert f"\n{name}==" in f"\n{lock}"
