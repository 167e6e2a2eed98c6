"""libpcap through ctypes: opens an interface, and moves its packets to a file in C.

The packets never become Python objects: ``pcap_dispatch`` gets libpcap's own ``pcap_dump`` as its callback, and runs
without the interpreter lock. Function by function: https://www.tcpdump.org/manpages/pcap.3pcap.html.

The device is in non-blocking mode, and ``poll`` waits for it: with memory-mapped capture ``pcap_dispatch`` may
otherwise sleep on an idle interface until a packet arrives, and older versions cannot be woken.
"""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from ctypes.util import find_library
from functools import lru_cache
from typing import Any

from captures.live.device import (
    ANY,
    WAIT_MS,
    CaptureFilterError,
    Counts,
    DeviceError,
    NetworkInterface,
    NotPermittedError,
    Settings,
)

_NAMES = ("libpcap.so.1", "libpcap.so.0.8", "libpcap.dylib")
_ERROR_SIZE = 256  # PCAP_ERRBUF_SIZE
_NANOSECONDS = 1  # PCAP_TSTAMP_PRECISION_NANO
_NO_SUCH_DEVICE = -5  # PCAP_ERROR_NO_SUCH_DEVICE
_NOT_PERMITTED = (-8, -11)  # PCAP_ERROR_PERM_DENIED, PCAP_ERROR_PROMISC_PERM_DENIED
_NETMASK_UNKNOWN = 0xFFFFFFFF
_COUNTER = 1 << 32
_FULLY_BUFFERED = 0  # _IOFBF
_WRITE_SIZE = 1 << 20

_STATES = ((0x2, "up"), (0x4, "running"), (0x1, "loopback"), (0x8, "wireless"))  # PCAP_IF_...


class _Stat(Structure):
    _fields_ = (("received", c_uint), ("dropped", c_uint), ("interface_dropped", c_uint))


class _Program(Structure):
    _fields_ = (("length", c_uint), ("instructions", c_void_p))


class _Interface(Structure):
    pass


_Interface._fields_ = (
    ("next", POINTER(_Interface)),
    ("name", c_char_p),
    ("description", c_char_p),
    ("addresses", c_void_p),
    ("flags", c_uint),
)

_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "pcap_create": (c_void_p, (c_char_p, c_char_p)),
    "pcap_set_snaplen": (c_int, (c_void_p, c_int)),
    "pcap_set_promisc": (c_int, (c_void_p, c_int)),
    "pcap_set_timeout": (c_int, (c_void_p, c_int)),
    "pcap_set_buffer_size": (c_int, (c_void_p, c_int)),
    "pcap_set_tstamp_precision": (c_int, (c_void_p, c_int)),
    "pcap_activate": (c_int, (c_void_p,)),
    "pcap_setnonblock": (c_int, (c_void_p, c_int, c_char_p)),
    "pcap_get_selectable_fd": (c_int, (c_void_p,)),
    "pcap_compile": (c_int, (c_void_p, POINTER(_Program), c_char_p, c_int, c_uint)),
    "pcap_setfilter": (c_int, (c_void_p, POINTER(_Program))),
    "pcap_freecode": (None, (POINTER(_Program),)),
    "pcap_geterr": (c_char_p, (c_void_p,)),
    "pcap_statustostr": (c_char_p, (c_int,)),
    "pcap_dispatch": (c_int, (c_void_p, c_int, c_void_p, c_void_p)),
    "pcap_dump_fopen": (c_void_p, (c_void_p, c_void_p)),
    "pcap_dump_flush": (c_int, (c_void_p,)),
    "pcap_dump_close": (None, (c_void_p,)),
    "pcap_stats": (c_int, (c_void_p, POINTER(_Stat))),
    "pcap_close": (None, (c_void_p,)),
    "pcap_findalldevs": (c_int, (POINTER(POINTER(_Interface)), c_char_p)),
    "pcap_freealldevs": (None, (POINTER(_Interface),)),
}


@lru_cache(maxsize=1)
def libpcap() -> ctypes.CDLL | None:
    """Return libpcap with its functions declared, None if it is not installed or is older than 1.5."""
    for name in (*filter(None, (find_library("pcap"),)), *_NAMES):
        try:
            library = ctypes.CDLL(name, use_errno=True)
            for function, (result, arguments) in _SIGNATURES.items():
                declared = getattr(library, function)
                declared.restype, declared.argtypes = result, arguments
        except (OSError, AttributeError):
            continue
        return library
    return None


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    """Return the C library, whose files libpcap writes to."""
    library = ctypes.CDLL(None, use_errno=True)
    library.fdopen.restype, library.fdopen.argtypes = c_void_p, (c_int, c_char_p)
    library.setvbuf.restype, library.setvbuf.argtypes = c_int, (c_void_p, c_void_p, c_int, c_size_t)
    library.ferror.restype, library.ferror.argtypes = c_int, (c_void_p,)
    return library


class PcapDevice:
    """An interface opened with libpcap; see :class:`~captures.live.device.Device`.

    :raises NotPermittedError: without the privilege to capture
    :raises CaptureFilterError: if libpcap rejects the expression
    :raises DeviceError: if the interface does not exist or cannot be captured on
    """

    def __init__(self, settings: Settings) -> None:
        library = libpcap()
        assert library is not None
        self._library = library
        self._interface = settings.interface
        self._write = ctypes.cast(library.pcap_dump, c_void_p)
        self._dumper: int | None = None
        self._file: int | None = None
        self._counts = Counts()
        self._last = _Stat()
        self.warning = ""
        self.delay = 0.0
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        self._handle: int | None = library.pcap_create(settings.interface.encode(), error)
        if not self._handle:
            raise DeviceError(f"{settings.interface}: {_text(error.value)}")
        try:
            self._activate(settings)
            if settings.expression:
                self._filter(settings.expression)
            if library.pcap_setnonblock(self._handle, 1, error):
                raise DeviceError(f"{settings.interface}: {_text(error.value)}")
        except DeviceError:
            self.close()
            raise

    def _activate(self, settings: Settings) -> None:
        library, handle = self._library, self._handle
        library.pcap_set_snaplen(handle, settings.snapshot_length)
        library.pcap_set_promisc(handle, int(settings.promiscuous and settings.interface != ANY))
        # not immediate mode: on Linux it uses TPACKET_V2, with a slot as large as the largest frame for every packet,
        # so that the buffer is full after a few hundred packets on the loopback interface
        library.pcap_set_timeout(handle, WAIT_MS)
        library.pcap_set_buffer_size(handle, settings.buffer_size)
        library.pcap_set_tstamp_precision(handle, _NANOSECONDS)  # else microseconds
        status = library.pcap_activate(handle)
        if status == 0:
            return
        text = ": ".join(filter(None, (_text(library.pcap_statustostr(status)), self._error())))
        if status in _NOT_PERMITTED:
            raise NotPermittedError(f"{settings.interface}: {text}")
        if status == _NO_SUCH_DEVICE:
            raise DeviceError(f"there is no interface {settings.interface}; -D lists the interfaces")
        if status < 0:
            raise DeviceError(f"{settings.interface}: {text}")
        self.warning = text

    def _filter(self, expression: str) -> None:
        library, program = self._library, _Program()
        if library.pcap_compile(self._handle, byref(program), expression.encode(), 1, _NETMASK_UNKNOWN):
            raise CaptureFilterError(f"the capture filter is not understood: {expression}: {self._error()}")
        try:
            if library.pcap_setfilter(self._handle, byref(program)):
                raise CaptureFilterError(f"the capture filter cannot be applied: {self._error()}")
        finally:
            library.pcap_freecode(byref(program))

    def _error(self) -> str:
        return _text(self._library.pcap_geterr(self._handle))

    def fileno(self) -> int:
        descriptor: int = self._library.pcap_get_selectable_fd(self._handle)
        return descriptor

    def write_to(self, descriptor: int) -> None:
        self.end_file()
        duplicate = os.dup(descriptor)
        file = _libc().fdopen(duplicate, b"wb")
        if not file:
            os.close(duplicate)
            raise _os_error()
        _libc().setvbuf(file, None, _FULLY_BUFFERED, _WRITE_SIZE)
        self._dumper = self._library.pcap_dump_fopen(self._handle, file)
        if not self._dumper:
            raise DeviceError(f"{self._interface}: {self._error()}")
        self._file = file

    def pump(self, most: int) -> int:
        ctypes.set_errno(0)
        written: int = self._library.pcap_dispatch(self._handle, most, self._write, self._dumper)
        if written < 0:
            raise DeviceError(f"{self._interface}: {self._error()}")
        return written

    def flush(self) -> None:
        # pcap_dump reports no write errors, and a later flush finds nothing left to do
        if self._library.pcap_dump_flush(self._dumper) or _libc().ferror(self._file):
            raise _os_error()

    def end_file(self) -> None:
        if self._dumper:
            self._library.pcap_dump_close(self._dumper)
            self._dumper = None

    def counts(self) -> Counts:
        now = _Stat()
        if self._library.pcap_stats(self._handle, byref(now)) == 0:
            before, last = self._counts, self._last
            # the counters have 32 bits: enough for an hour at a million packets a second
            self._counts = Counts(
                before.received + (now.received - last.received) % _COUNTER,
                before.dropped + (now.dropped - last.dropped) % _COUNTER,
                before.interface_dropped + (now.interface_dropped - last.interface_dropped) % _COUNTER,
            )
            self._last = now
        return self._counts

    def close(self) -> None:
        self.end_file()
        if self._handle:
            self._library.pcap_close(self._handle)
            self._handle = None


def interfaces() -> list[NetworkInterface]:
    """Return the interfaces that libpcap can capture on, in its order of preference (pcap_findalldevs(3PCAP)).

    :raises DeviceError: if the system does not list them
    """
    library = libpcap()
    assert library is not None
    first, error = POINTER(_Interface)(), ctypes.create_string_buffer(_ERROR_SIZE)
    if library.pcap_findalldevs(byref(first), error):
        raise DeviceError(_text(error.value))
    found, item = [], first
    while item:
        entry = item.contents
        about = [text for bit, text in _STATES if entry.flags & bit]
        found.append(
            NetworkInterface(
                os.fsdecode(entry.name),
                ", ".join(filter(None, (_text(entry.description), *about))),
            )
        )
        item = entry.next
    library.pcap_freealldevs(first)
    return found


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode(errors="replace").replace("\n", " ").strip()


def _os_error() -> OSError:
    number = ctypes.get_errno() or errno.EIO
    return OSError(number, os.strerror(number))
