"""Values on their way between machines: pickled, each path a reference into a bundle of files.

A worker's answer is read by an unpickler that finds types of this package and of NumPy alone. Ray
itself unpickles the message around the answer; docs/cluster.md says what that means for trust.
"""

import hashlib
import io
import pickle
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, EnumType
from inspect import isfunction
from pathlib import Path, PurePath
from typing import Any, ClassVar

from cuda_llm.errors import InfrastructureError
from cuda_llm.tasks.task import Task
from cuda_llm.tools.cluster.bundle import Bundle, Contents, bundle_of, find, keep_all

OURS = "cuda_llm."


@dataclass(frozen=True)
class Parcel:
    """One value as it travels, and the bundles that its paths lie in, by key."""

    payload: bytes
    bundles: Mapping[str, Bundle]

    def contents(self, keys: Set[str]) -> dict[str, dict[str, bytes]]:
        """Return the files of the bundles with these keys, as `bundle.keep` takes them."""
        return {key: self.bundles[key].read() for key in sorted(keys)}


@dataclass(frozen=True)
class BundlesMissing:
    """The machine that received a value lacks these bundles: the value has to be sent with them."""

    keys: frozenset[str]


def pack(value: object) -> Parcel:
    """Return a value made of this package's types as it travels. Raises what pickle raises."""
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    pickler.dump(value)
    return Parcel(buffer.getvalue(), pickler.bundles)


def fingerprint(value: object) -> str:
    """Return a hash of what a value is made of, its files included: the same in every process.

    A payload is not: whether two equal texts in it are one object depends on whether they were made
    or read from the cache. Fields of dataclasses that are no part of a comparison do not count.
    """
    buffer = io.BytesIO()
    _ContentPickler(buffer).dump(value)
    return hashlib.blake2b(buffer.getvalue(), digest_size=20).hexdigest()


def unpack(payload: bytes, *, functions: bool = False) -> Any:
    """Return the value of a payload, its paths inside this machine's cache; BundlesMissing where
    the cache lacks a bundle.

    With `functions` the value may name functions of this package, as an order to a worker does; an
    answer never does. Raises InfrastructureError where the payload holds anything else.
    """
    reader = _Unpickler(io.BytesIO(payload), functions=functions)
    try:
        value = reader.load()
    except InfrastructureError:
        raise
    except Exception as error:
        what = f"what arrived cannot be read: {type(error).__name__}: {error}"
        raise InfrastructureError("cluster", what) from error
    return BundlesMissing(frozenset(reader.missing)) if reader.missing else value


def _is_own_value(found: Any) -> bool:
    """Return whether `found` is a dataclass, an enumeration or an error of this package."""
    if not isinstance(found, type) or not found.__module__.startswith(OURS):
        return False
    return is_dataclass(found) or issubclass(found, Enum | BaseException)


def _is_own_function(found: Any) -> bool:
    """Return whether `found` is a function of this package."""
    return isfunction(found) and found.__module__.startswith(OURS)


async def exchange(
    parcel: Parcel, known: set[str], ask: Callable[[Contents], Awaitable[tuple[bytes, Contents]]]
) -> Any:
    """Send a parcel with the bundles that the other side lacks, and return the answer.

    `ask` sends the parcel with the files that it is given. `known` are the keys of bundles that lie
    on the other side; those of the parcel are added. Raises what `ask` raises, and
    InfrastructureError where bundles that were sent are not kept there.
    """
    lacking: Set[str] = parcel.bundles.keys() - known
    for _ in range(2):
        payload, files = await ask(parcel.contents(lacking))
        keep_all(files)
        reply = unpack(payload)
        if not isinstance(reply, BundlesMissing):
            known.update(parcel.bundles)
            return reply
        lacking = reply.keys
    raise InfrastructureError("cluster", "files that were sent are not kept there")


def enum_member(kind: object, name: object) -> object:
    """Return the member of an enumeration with this name: the stand-in for `getattr`, as a call of
    which Python 3.11.0 to 3.11.3 pickle members. Raises InfrastructureError for anything else."""
    if isinstance(kind, EnumType) and isinstance(name, str) and name in kind.__members__:
        return kind[name]
    raise InfrastructureError("cluster", f"{name!r} of {kind!r} arrived, which is no value of ours")


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self.bundles: dict[str, Bundle] = {}
        self._roots: dict[Path, str] = {}
        """Keys of the bundles of folders that travel whole, by folder."""

    def persistent_id(self, value: Any) -> tuple[str, str, str] | None:
        """Return the reference that stands for a path: key of its bundle, name in the bundle, and
        the path as text; None for any other value.

        A task's folder travels whole, because its files import each other.
        """
        if isinstance(value, Task):
            self._add_folder(value.folder)
        if not isinstance(value, Path):
            return None
        if value.is_dir():
            return self._add_folder(value), "", str(value)
        root = next((one for one in self._roots if value.is_relative_to(one)), None)
        if root is not None:
            return self._roots[root], str(value.relative_to(root)), str(value)
        if not value.is_file():
            return "", "", str(value)
        bundle = bundle_of(value)
        self.bundles[bundle.key] = bundle
        return bundle.key, value.name, str(value)

    def _add_folder(self, folder: Path) -> str:
        if folder not in self._roots:
            bundle = bundle_of(folder)
            self._roots[folder] = bundle.key
            self.bundles[bundle.key] = bundle
        return self._roots[folder]


class _ContentPickler(_Pickler):
    """Writes what `fingerprint` hashes, which nobody reads back."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer)
        # Each object is written out where it stands, shared or not.
        self.fast = True

    def persistent_id(self, value: Any) -> Any:
        """Return a set as its sorted members, whose order depends on the process, and a path."""
        if isinstance(value, frozenset | set):
            return "set", sorted(map(repr, value))
        return super().persistent_id(value)

    def reducer_override(self, value: Any) -> Any:
        """Return the fields of a dataclass that count in a comparison."""
        if not is_dataclass(value) or isinstance(value, type):
            return NotImplemented
        counted = [one.name for one in fields(value) if one.compare]
        return type(value), tuple((name, getattr(value, name)) for name in counted)


class _Unpickler(pickle.Unpickler):
    OTHERS: ClassVar[Mapping[str, frozenset[str]]] = {
        "builtins": frozenset({"set", "frozenset", "bytearray", "complex", "slice", "range"}),
        "collections": frozenset({"OrderedDict", "defaultdict", "deque"}),
        "datetime": frozenset({"datetime", "timedelta", "timezone", "date"}),
        "numpy": frozenset({"ndarray", "dtype"}),
        "numpy.core.multiarray": frozenset({"_reconstruct", "scalar"}),
        "numpy._core.multiarray": frozenset({"_reconstruct", "scalar"}),
        "numpy.core.numeric": frozenset({"_frombuffer"}),
        "numpy._core.numeric": frozenset({"_frombuffer"}),
    }

    def __init__(self, buffer: io.BytesIO, *, functions: bool) -> None:
        super().__init__(buffer)
        self._functions = functions
        self.missing: set[str] = set()
        self._folders: dict[str, Path | None] = {}
        """Folders of bundles, by key; None for a bundle that this machine lacks."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a type of this package, or one of the few others that its values are made of.

        Raises InfrastructureError for any other name.
        """
        if module.startswith(OURS) and "." not in name:
            found = super().find_class(module, name)
            if _is_own_value(found) or (self._functions and _is_own_function(found)):
                return found
        if name in self.OTHERS.get(module, ()):
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):
            return enum_member
        raise InfrastructureError("cluster", f"{module}.{name} arrived, which is no value of ours")

    def persistent_load(self, reference: tuple[str, str, str]) -> Path:
        """Return the path on this machine of a file or folder that was referred to.

        Raises InfrastructureError where the path leads out of its bundle.
        """
        key, name, text = reference
        if not key and not self._functions:
            raise InfrastructureError("cluster", f"a path of another machine arrived: {text!r}")
        if not key:
            return Path(text)
        if key not in self._folders:
            self._folders[key] = find(key)
        folder = self._folders[key]
        if folder is None:
            self.missing.add(key)
            return Path(text)
        if ".." in PurePath(name).parts or PurePath(name).is_absolute():
            raise InfrastructureError("cluster", f"a path leads out of its bundle: {name!r}")
        return folder / name
