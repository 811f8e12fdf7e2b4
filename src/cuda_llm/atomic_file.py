"""Files that are whole or not there, whenever a process dies and however many write at once."""

import errno
import fcntl
import os
import shutil
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)


def write_atomically(path: Path, data: bytes | str) -> None:
    """Replace `path` by a file that holds `data`; text is stored as UTF-8. Raises OSError.

    Folders above it are made. Writers take turns, tasks, threads and processes alike, and the last
    one's data stay. A reader sees one writer's data, whole.
    """
    content = data.encode() if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    # The scratch file has one name, so that what a killed process left is overwritten.
    scratch = path.with_name(f".{path.name}.part")
    file = _open_locked(scratch)
    try:
        os.ftruncate(file, 0)
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]
        scratch.replace(path)
    except BaseException:
        # A full disk gets its space back.
        scratch.unlink(missing_ok=True)
        raise
    finally:
        # Closing is not enough where another thread has forked meanwhile.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def _open_locked(scratch: Path) -> int:
    """Open `scratch` once no other writer holds it; closing it lets the next one go on."""
    while True:
        file = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            # The writer before us may have renamed the file that we opened and waited for.
            if os.path.samestat(os.fstat(file), os.stat(scratch)):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def describe_full_disk(path: Path, needed_bytes: int | None = None) -> str:
    """Return how much `path` needed and how much is free there, in a few words."""
    there = next((one for one in (path, *path.parents) if one.exists()), path)
    needed = "" if needed_bytes is None else f"{needed_bytes / 1e3:,.1f} kB were needed, "
    usage = shutil.disk_usage(there)
    return f"disk full: {needed}{usage.free / 1e3:,.1f} kB of {usage.total / 1e6:,.1f} MB are free"
