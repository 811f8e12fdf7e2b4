"""Files that travel between machines, named by their contents, so that none is sent twice.

A bundle is a folder, or one file. Where it arrives it is an entry of the machine's own cache.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from cuda_llm.errors import InfrastructureError, UsageError
from cuda_llm.tools.native import cache_folder, entry_folder, load, store

KIND = "travelled"
MOST_BYTES = 256 << 20
"""Most bytes of one bundle; a library of headers has a tenth of that."""
MOST_FILES = 20_000
"""Most files of one bundle."""
LEFT_OUT = frozenset({"__pycache__", "traces"})
"""Names of folders inside a task's folder that do not travel with the task."""

Contents: TypeAlias = Mapping[str, Mapping[str, bytes]]
"""The files of bundles: bytes by the key of the bundle and the name of the file."""
_digests: dict[Path, tuple[tuple[int, int], str]] = {}
"""By file: its size and modification time when it was hashed, and the digest."""


@dataclass(frozen=True)
class Bundle:
    """The files of one folder, or one file, with the digests of their contents."""

    root: Path
    """The folder; for a single file, the folder in which the file lies."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Digest of each file, by the file's path below `root`."""

    @property
    def key(self) -> str:
        """Return a hash of all names and contents."""
        text = "\n".join(f"{digest} {name}" for name, digest in sorted(self.files.items()))
        return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()

    def read(self) -> dict[str, bytes]:
        """Return the contents of all files. Raises InfrastructureError where a file has changed
        since it was hashed."""
        contents = {name: (self.root / name).read_bytes() for name in self.files}
        changed = [name for name, one in contents.items() if digest_of(one) != self.files[name]]
        if changed:
            raise InfrastructureError("cluster", f"{self.root / changed[0]} changed as it was sent")
        return contents


def bundle_of(path: Path) -> Bundle:
    """Describe a folder or a file as it is now.

    Raises UsageError where a folder holds more than MOST_BYTES or MOST_FILES.
    """
    if path.is_file():
        return Bundle(path.parent, {path.name: _digest_of_file(path)})
    files, total = {}, 0
    for file in _walk(path):
        files[str(file.relative_to(path))] = _digest_of_file(file)
        total += file.stat().st_size
        if total > MOST_BYTES or len(files) > MOST_FILES:
            raise UsageError(
                f"{path} holds more than {MOST_BYTES >> 20} MiB or {MOST_FILES:,} files, too much "
                "to send to the workers of a cluster; move away what is not needed"
            )
    return Bundle(path, files)


def keep(key: str, contents: Mapping[str, bytes]) -> None:
    """Put a bundle that arrived into the cache.

    Raises InfrastructureError where its contents are not those that `key` names.
    """
    files = {name: digest_of(one) for name, one in contents.items()}
    if Bundle(Path(), files).key != key:
        raise InfrastructureError("cluster", "files did not arrive as they were sent")
    scratch = Path(tempfile.mkdtemp(dir=cache_folder("work"), prefix="travelled-"))
    try:
        for name, one in contents.items():
            file = scratch / name
            if not file.resolve().is_relative_to(scratch.resolve()):
                raise InfrastructureError("cluster", f"a file is called {name!r}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(one)
        store(KIND, key, {}, {name: scratch / name for name in contents})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def keep_all(contents: Contents) -> None:
    """Put bundles that arrived into this machine's cache, but those that lie there."""
    for key, files in contents.items():
        if find(key) is None:
            keep(key, files)


def find(key: str) -> Path | None:
    """Return the folder of a bundle in this machine's cache, pinned from now on; None where the
    cache does not hold the bundle."""
    return None if load(KIND, key) is None else entry_folder(KIND, key)


def digest_of(contents: bytes) -> str:
    """Return the hash that names these contents."""
    return hashlib.blake2b(contents, digest_size=20).hexdigest()


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, in order, without hidden ones."""
    for one in sorted(folder.iterdir()):
        if one.name.startswith(".") or one.name in LEFT_OUT:
            continue
        if one.is_dir():
            yield from _walk(one)
        elif one.is_file():
            yield one


def _digest_of_file(file: Path) -> str:
    status = file.stat()
    mark = status.st_size, status.st_mtime_ns
    known = _digests.get(file)
    if known is None or known[0] != mark:
        known = mark, digest_of(file.read_bytes())
        _digests[file] = known
    return known[1]
