"""A folder through which works go to a machine elsewhere, and their answers come back.

    device.zip            the device of the machine that answers
    orders/HASH.zip       one work each, named by its content
    answers/HASH.zip      the answer to the work of that name
    bundles/KEY.zip       files that orders and answers refer to

Files appear whole, by renaming, and a copy that was cut off is no archive and counts as not there:
the folder may be copied in either direction at any time.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cuda_llm.atomic_file import write_atomically
from cuda_llm.errors import UsageError
from cuda_llm.tools.cluster.bundle import Contents
from cuda_llm.tools.cluster.worker import code_hash

PAYLOAD, HEAD = "payload", "head.json"
_TIME = (1980, 1, 1, 0, 0, 0)
"""Time of every member: the same contents make the same archive."""


@dataclass(frozen=True, kw_only=True)
class Letter:
    """One order, answer or device as it lies in the folder."""

    payload: bytes
    """A packed value (`parcel.pack`)."""
    code: str
    """Hash of this package where the letter was written (`written_by`)."""
    gpu: str = ""
    """GPU that an order was compiled for; empty for other letters."""
    contents: Contents = field(default_factory=dict)


def written_by() -> str:
    """Return the hash that letters of this machine carry: values travel between releases of
    Python."""
    return code_hash(python=False)


@dataclass(frozen=True)
class OrderFolder:
    """The folder at `root`. Every method raises UsageError where the folder cannot be used."""

    root: Path

    def prepare(self) -> None:
        """Make the folder and the folders in it."""
        try:
            for name in ("orders", "answers", "bundles"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.root}: cannot be made: {error.strerror}") from error

    def order(self, name: str, letter: Letter) -> None:
        """Put an order down, named by its content, unless it lies there."""
        file = self._file("orders", name)
        if not file.exists():
            self._put(file, letter)

    def waiting(self) -> list[str]:
        """Return the names of orders without an answer, oldest first."""
        found = (self.root / "orders").glob("*.zip")
        open_ = [one for one in found if not self._file("answers", one.stem).exists()]
        return [one.stem for one in sorted(open_, key=_age)]

    def read_order(self, name: str) -> Letter | None:
        """Return an order; None where it is gone or not whole yet."""
        return self._read(self._file("orders", name))

    def answer(self, name: str, letter: Letter) -> None:
        """Put down the answer to an order."""
        self._put(self._file("answers", name), letter)

    def read_answer(self, name: str) -> Letter | None:
        """Return an answer; None where there is none, or not a whole one yet."""
        return self._read(self._file("answers", name))

    def close_order(self, name: str) -> None:
        """Remove an order whose answer was read; the answer stays for a resumed search."""
        self._file("orders", name).unlink(missing_ok=True)

    def discard_answer(self, name: str) -> None:
        """Remove an answer that says that the machine failed: the order may be asked again."""
        self._file("answers", name).unlink(missing_ok=True)

    def describe_device(self, letter: Letter) -> None:
        """Say which device answers here."""
        self._put(self.root / "device.zip", letter)

    def read_device(self) -> Letter | None:
        """Return the device that answers here; None where no machine has answered yet."""
        return self._read(self.root / "device.zip")

    def _file(self, kind: str, name: str) -> Path:
        return self.root / kind / f"{name}.zip"

    def _put(self, file: Path, letter: Letter) -> None:
        head = {"code": letter.code, "gpu": letter.gpu, "bundles": sorted(letter.contents)}
        try:
            for key, files in letter.contents.items():
                bundle = self._file("bundles", key)
                if not bundle.exists():
                    write_atomically(bundle, _archive(files))
            members = {HEAD: json.dumps(head).encode(), PAYLOAD: letter.payload}
            write_atomically(file, _archive(members))
        except OSError as error:
            raise UsageError(f"{self.root}: cannot be written to: {error.strerror}") from error

    def _read(self, file: Path) -> Letter | None:
        members = _members(file)
        if members is None:
            return None
        head = json.loads(members[HEAD])
        contents = {key: _members(self._file("bundles", key)) for key in head["bundles"]}
        known = {key: files for key, files in contents.items() if files is not None}
        if len(known) < len(contents):
            return None
        return Letter(payload=members[PAYLOAD], code=head["code"], gpu=head["gpu"], contents=known)


def _age(file: Path) -> tuple[float, str]:
    """Return what sorts files by age; a file that was removed meanwhile comes first."""
    try:
        return file.stat().st_mtime, file.name
    except OSError:
        return 0.0, file.name


def _archive(members: Mapping[str, bytes]) -> bytes:
    """Return an archive of these files, the same for the same contents."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name, _TIME), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _members(file: Path) -> dict[str, bytes] | None:
    """Return the files of an archive; None where there is none, or it is cut off."""
    try:
        with zipfile.ZipFile(file) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile, EOFError, ValueError):
        return None
