"""Remote captures: paths with a scheme (``s3://``, ``hdfs://``, ``https://`` ...), reached through fsspec.

Files are read in ranges where they are stored, and a few recently read blocks are kept; nothing is copied first.
fsspec, and the package that it needs for a scheme, are imported when such a path is used. The package finds settings
and credentials itself, in its environment variables and files. ``file://`` names a local file like its plain path.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath
from re import compile as pattern
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from captures.packets.errors import CaptureError
from captures.packets.pcap_over_ip import is_pcap_over_ip
from captures.packets.stores import Store

_SCHEME = pattern(r"[A-Za-z][A-Za-z0-9+.:-]*://")
_BLOCK = 1 << 20
"""Minimum number of bytes to read: one request to an object store takes as long as reading several blocks."""
_KEPT = 64
"""Number of cached blocks of all files together."""
_WEB = frozenset({"http", "https"})
_EXTRAS = {
    "https": "http",
    "s3a": "s3",
    "az": "abfs",
    "abfss": "abfs",
    "gcs": "gs",
    "ssh": "sftp",
    "webhdfs": "http",
}
"""Scheme -> the fsspec extra that supports it, if its name differs."""
_MARKS = (
    "ETag",
    "etag",
    "checksum",
    "md5Hash",
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "created",
    "ino",
)
"""File properties, as reported by file systems, that change with the content."""
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


class RemoteStatus(NamedTuple):
    """Status of a remote file.

    :ivar size: in bytes
    :ivar changed: modification time in ns since the epoch; 0 if unknown
    :ivar identity: distinguishes the file and its version from others
    """

    size: int
    changed: int
    identity: tuple[int, int]


def is_remote(path: str) -> bool:
    """Return whether a path is reached through fsspec."""
    found = _SCHEME.match(path)
    return found is not None and found[0].lower() != "file://" and not is_pcap_over_ip(path)


def local(path: str) -> str:
    """Convert a ``file://`` URL to a path of the local file system; return other paths unchanged."""
    if path[:7].lower() != "file://":
        return path
    return unquote(urlsplit(path).path)


def absolute(path: str) -> str:
    """Return a path as other processes of this machine name the file; standard input and remote paths do not change."""
    here = not (path == "-" or is_remote(path) or is_pcap_over_ip(path))
    return str(Path(local(path)).absolute()) if here else path


# ---------------------------------------------------------------- listing
def is_folder(path: str) -> bool:
    """Return whether a path names a folder, or a common prefix of object names.

    :raises CaptureError: if no installed package supports the scheme, or the path cannot be reached
    """
    with _as_capture_error(path):
        files, location = _file_system_of(path)
        if (
            _scheme(path) in _WEB
        ):  # asked for a list, a server would send a file from its first to its last byte
            return path.endswith("/")
        return bool(files.isdir(location))


def is_pattern(path: str) -> bool:
    """Return whether a path stands for the files that match it."""
    if _scheme(path) in _WEB:  # a question mark begins a query there
        return "*" in urlsplit(path).path
    return glob.has_magic(path) and not _path_exists(path)


def listed(path: str) -> list[str]:
    """Return the files in a folder or that match a pattern, by name; hidden files (``.*``) are excluded.

    :raises CaptureError: as :func:`is_folder`
    """
    with _as_capture_error(path):
        files, location = _file_system_of(path)
        files.invalidate_cache()  # otherwise an earlier listing may be returned
        fitting = is_pattern(path)
        found = files.glob(location, detail=True).values() if fitting else files.ls(location, detail=True)
        names = [str(each["name"]) for each in found if each.get("type", "file") == "file"]
        prefix = _prefix(path, location)
    return sorted(
        name if _SCHEME.match(name) else prefix + name
        for name in names
        if not PurePosixPath(name).name.startswith(".")
    )


def status(path: str) -> RemoteStatus:
    """Return the status of a file.

    :raises CaptureError: as :func:`is_folder`, and if there is no such file
    """
    with _as_capture_error(path):
        files, location = _file_system_of(path)
        files.invalidate_cache()
        info = files.info(location)
    if info.get("type") == "directory":
        raise CaptureError(path, 0, "Is a directory")
    if info.get("size") is None:
        raise CaptureError(path, 0, "its server does not report its size: copy it to this machine first")
    size = int(info["size"])
    marks = [str(info[name]) for name in _MARKS if info.get(name) is not None]
    identity = _digest(f"{files.protocol} {location}"), _digest(" ".join([str(size), *marks]))
    return RemoteStatus(size, _modified_ns(info), identity)


def _modified_ns(info: dict[str, Any]) -> int:
    for name in _TIMES:
        time = info.get(name)
        if isinstance(time, str):
            try:
                time = datetime.fromisoformat(time)
            except ValueError:
                continue
        if isinstance(time, datetime):
            time = time.timestamp()
        if isinstance(time, int | float):
            return int(time * 1e9)
    return 0


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _path_exists(path: str) -> bool:
    with _as_capture_error(path):
        files, location = _file_system_of(path)
        return bool(files.exists(location))


# ---------------------------------------------------------------- bytes
def opened(path: str) -> BinaryIO:
    """Open a file for sequential reading.

    :raises CaptureError: as :func:`status`
    """
    with _as_capture_error(path):
        files, location = _file_system_of(path)
        return cast(BinaryIO, _RemoteFeed(files.open(location, "rb", block_size=4 * _BLOCK)))


class _RemoteFeed:
    """A file whose errors are OSError."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        with _as_os_error():
            data: bytes = self._file.read(size)
            return data

    def close(self) -> None:
        self._file.close()


class RemoteFile(Store):
    """A remote file that is read in ranges.

    :param size: in bytes, from :func:`status`
    """

    size = 0

    def __init__(self, path: str, size: int) -> None:
        with _as_capture_error(path):
            self._files, self._place = _file_system_of(path)
        self.size = size

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self.size)
        if end - offset >= _BLOCK:
            return self._fetched(offset, end)
        parts = []
        while offset < end:
            number, within = divmod(offset, _BLOCK)
            parts.append(_block(self, number)[within : within + end - offset])
            offset += len(parts[-1])
        return b"".join(parts)

    def _fetched(self, begin: int, end: int) -> bytes:
        with _as_os_error():
            data: bytes = self._files.cat_file(self._place, start=begin, end=end)
        if len(data) != end - begin:
            received = f"received {len(data):,} of {end - begin:,} bytes from offset {begin:,}"
            raise OSError(
                f"{received}: it has changed, or its server does not give parts of files (copy it here then)"
            )
        return data


@lru_cache(_KEPT)
def _block(file: RemoteFile, number: int) -> bytes:
    return file._fetched(number * _BLOCK, min((number + 1) * _BLOCK, file.size))


# ---------------------------------------------------------------- fsspec
def _scheme(path: str) -> str:
    return path.partition("://")[0].lower()


def _file_system_of(path: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise CaptureError(
            path, 0, "paths with a scheme are reached through fsspec: pip install 'kproxy[remote]'"
        ) from None
    try:
        found: tuple[Any, str] = url_to_fs(path)
    except ImportError:
        extra = _EXTRAS.get(_scheme(path), _scheme(path))
        raise CaptureError(
            path, 0, f"no installed package supports {_scheme(path)}://: pip install 'fsspec[{extra}]'"
        ) from None
    except ValueError as error:
        if "Protocol not known" not in str(error):
            raise
        raise CaptureError(path, 0, f"fsspec knows no scheme {_scheme(path)}://") from None
    return found


def _prefix(path: str, location: str) -> str:
    """Return the part of a path before the names that its file system uses, such as a host."""
    shown = path.rstrip("/")
    return shown[: -len(location)] if location and shown.endswith(location) else f"{_scheme(path)}://"


@contextmanager
def _as_capture_error(path: str) -> Iterator[None]:
    """Convert any error, also of third-party packages, into an error of the file.

    :raises CaptureError: for any error
    """
    try:
        yield
    except CaptureError:
        raise
    except FileNotFoundError:
        raise CaptureError(path, 0, "No such file or directory") from None
    except Exception as error:  # each package has its own
        raise CaptureError(path, 0, _error_text(error)) from error


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # each package has its own
        raise OSError(_error_text(error)) from error


def _error_text(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return f"it cannot be reached: {text or type(error).__name__}"
