"""The program that bpftrace runs: what the functions of OpenSSL and BoringSSL were given and gave, as lines of text.

bpftrace 0.17 prints at most 200 bytes of a buffer, and is slow at it; the same bytes as numbers of eight bytes take a
fraction of the time. So data comes in chunks of 24 numbers; what is shorter than a chunk comes as a buffer.

The connection of an ``SSL`` object is the socket that the thread reads or writes in a call with it. If it never does,
because the program moves the ciphertext itself (``asyncio``, Node), it is the socket that the thread has read before
the call that completed the handshake, or that returned data.
Addresses come from the kernel's ``struct sock``, which takes BTF.

Lines, with times in ns since the start of the machine::

    b CPU TIME                                                  a heartbeat: earlier calls on that CPU were printed
    o PID TID TIME DIRECTION SSL ROLE POSITION SIZE FAMILY LOCAL_PORT REMOTE_PORT ADDRESS ...      a call
    w TID TIME OFFSET NUMBER ...                                24 numbers of its bytes, in the machine's order
    x TID TIME OFFSET BYTES                                     fewer bytes
    f PID TIME SSL                                              the object was freed
    e PID TIME                                                  the process ended

The addresses are the local and the remote one of IPv4 (two numbers), then those of IPv6 (eight).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from captures.live.taps.libraries import Library

CHUNK = 192
"""Bytes of a line ``w``."""
LARGEST = {"SSL_read": 1 << 14, "SSL_write": 1 << 18}
"""Bytes of a call that are printed. A read returns one TLS record; of a write, the verifier refuses much more."""
BEATS = 50
"""Heartbeats per second and CPU."""

_BEGIN = """
BEGIN {
  @ssl[tid] = (uint64)0; @buffer[tid] = (uint64)0; @size[tid] = (uint64)0; @last[tid] = (uint64)0;
  @socket[pid, @ssl[tid]] = (uint64)0; @role[pid, @ssl[tid]] = 0;
  @sent[pid, @ssl[tid]] = (uint64)0; @received[pid, @ssl[tid]] = (uint64)0; @uses[pid] = 0;
  clear(@ssl); clear(@buffer); clear(@size); clear(@last); clear(@socket); clear(@role); clear(@sent);
  clear(@received); clear(@uses);
}
END {
  clear(@ssl); clear(@buffer); clear(@size); clear(@last); clear(@socket); clear(@role); clear(@sent);
  clear(@received); clear(@uses);
}
"""

_SOCKET = """
  $fds = (uint64)((struct fdtable *)((struct files_struct *)((struct task_struct *)curtask)->files)->fdt)->fd;
  $file = (struct file *)*(kptr((uint64 *)($fds + 8 * (uint64)args->fd)));
  $inode = (struct inode *)$file->f_inode;
  if (($inode->i_mode & 0xf000) == 0xc000) {
    $sk = (struct sock *)((struct socket *)$file->private_data)->sk;
    $family = $sk->__sk_common.skc_family;
    if ($family == 2 || $family == 10) { KEEP }
  }
"""
"""The socket of a system call; S_ISSOCK of linux/stat.h, AF_INET and AF_INET6 of linux/socket.h."""

_SYSTEM_CALLS = (
    "tracepoint:syscalls:sys_enter_CALL /@ssl[tid]/ {"
    + _SOCKET.replace("KEEP", "@socket[pid, @ssl[tid]] = (uint64)$sk;")
    + "}\n"
)
_RECEIVES = (
    "tracepoint:syscalls:sys_enter_CALL /@uses[pid] && !@ssl[tid]/ {"
    + _SOCKET.replace("KEEP", "@last[tid] = (uint64)$sk;")
    + "}\n"
)

_HANDSHAKE = """
uprobe:PATH:SSL_do_handshake /WANTED/ {
  @ssl[tid] = arg0; @uses[pid] = 1;
  if (!@role[pid, arg0]) { @role[pid, arg0] = 1; }
}
uretprobe:PATH:SSL_do_handshake /@ssl[tid]/ {
  $ssl = @ssl[tid];
  if (retval == 1 && !@socket[pid, $ssl]) { @socket[pid, $ssl] = @last[tid]; }
  if (!@buffer[tid]) { delete(@ssl[tid]); }
}
"""
"""BoringSSL does the handshake inside a read or write, too."""
_ACCEPTS = "uprobe:PATH:FUNCTION /WANTED/ { @role[pid, arg0] = 2; }\n"
_FREE = """
uprobe:PATH:SSL_free /WANTED/ {
  if (@uses[pid]) { printf("f %d %llu %llx\\n", pid, nsecs, arg0); }
  delete(@socket[pid, arg0]); delete(@role[pid, arg0]); delete(@sent[pid, arg0]); delete(@received[pid, arg0]);
}
"""
_EXIT = """
tracepoint:sched:sched_process_exit /@uses[pid]/ {
  delete(@ssl[tid]); delete(@buffer[tid]); delete(@size[tid]); delete(@last[tid]);
  if (pid == tid) { printf("e %d %llu\\n", pid, nsecs); delete(@uses[pid]); }
}
"""

_CALL = """
uprobe:PATH:FUNCTION /WANTED/ { @ssl[tid] = arg0; @buffer[tid] = arg1; @uses[pid] = 1; ENTRY }
uretprobe:PATH:FUNCTION /@ssl[tid]/ {
  $ssl = @ssl[tid]; $buffer = @buffer[tid];
  $size = (uint64)0;
  if ((int32)retval > 0) { $size = AMOUNT; }
  if ($size > 0) {
    BIND
    $sk = (struct sock *)kptr(@socket[pid, $ssl]);
    $family = $sk->__sk_common.skc_family;
    $at = COUNTED[pid, $ssl]; $now = nsecs;
    printf("o %d %d %llu DIRECTION %llx %d %llu %llu %d %d %d %u %u %u %u %u %u %u %u %u %u\\n", pid, tid, $now, $ssl,
      @role[pid, $ssl], $at, $size, $family, $sk->__sk_common.skc_num, $sk->__sk_common.skc_dport,
      $sk->__sk_common.skc_rcv_saddr, $sk->__sk_common.skc_daddr, SIX);
    COUNTED[pid, $ssl] = $at + $size;
    $i = (uint64)0;
    while ($i < LARGEST) {
      if ($i + CHUNK > $size) { break; }
      $p = $buffer + $i;
      printf("w %d %llu %llu FORMS\\n", tid, $now, $i, NUMBERS);
      $i += CHUNK;
    }
    if ($i < $size && $i < LARGEST) {
      if ($size >= CHUNK) {
        $i = $size - CHUNK; $p = $buffer + $i;
        printf("w %d %llu %llu FORMS\\n", tid, $now, $i, NUMBERS);
      } else {
        printf("x %d %llu %llu %rh\\n", tid, $now, $i, buf($buffer, $size));
      }
    }
  }
  delete(@ssl[tid]); delete(@buffer[tid]); delete(@size[tid]);
}
"""

_PROBE = re.compile(r"(\w+:)PATH(:\w+)")
_INSIDE = ("read", "write", "recvfrom", "sendto", "recvmsg", "sendmsg", "readv", "writev")
_BEFORE = ("read", "recvfrom", "recvmsg", "readv")


def program(libraries: Sequence[Library], processes: Collection[int]) -> str:
    """Return a program for bpftrace.

    :param processes: IDs of those to read; empty for all
    """
    wanted = " || ".join(f"pid == {each}" for each in sorted(processes)) or "1"
    parts = [_BEGIN, _EXIT]
    parts += [_SYSTEM_CALLS.replace("CALL", call) for call in _INSIDE]
    parts += [_RECEIVES.replace("CALL", call) for call in _BEFORE]
    for function, text in _TEXTS.items():
        paths = [each.path for each in libraries if function in each.functions]
        if paths:
            parts.append(_probing(text.replace("WANTED", wanted), paths))
    return "".join([*parts, f'profile:hz:{BEATS} {{ printf("b %d %llu\\n", cpu, nsecs); }}\n'])


def _probing(text: str, paths: Sequence[str]) -> str:
    """Return a probe with all files; bpftrace compiles it once then."""
    return _PROBE.sub(lambda at: ", ".join(f'{at[1]}"{path}"{at[2]}' for path in paths), text)


def _call(function: str) -> str:
    kind, extended, _ = function.partition("_ex")
    numbers = ", ".join(f"*(uint64 *)($p + {at})" for at in range(0, CHUNK, 8))
    six = ", ".join(
        f"$sk->__sk_common.{end}.in6_u.u6_addr32[{at}]"
        for end in ("skc_v6_rcv_saddr", "skc_v6_daddr")
        for at in range(4)
    )
    values = {
        "FUNCTION": function,
        "ENTRY": "@size[tid] = arg3;" if extended else "",
        "AMOUNT": "*(uint64 *)@size[tid]" if extended else "(uint64)retval",
        "COUNTED": "@received" if kind == "SSL_read" else "@sent",
        "DIRECTION": "r" if kind == "SSL_read" else "w",
        "LARGEST": str(LARGEST[kind]),
        "CHUNK": str(CHUNK),
        "FORMS": " ".join(["%llx"] * (CHUNK // 8)),
        "NUMBERS": numbers,
        "SIX": six,
        "BIND": "if (!@socket[pid, $ssl]) { @socket[pid, $ssl] = @last[tid]; }" if kind == "SSL_read" else "",
    }
    text = _CALL
    for name, value in values.items():
        text = text.replace(name, value)
    return text


_TEXTS = {
    "SSL_do_handshake": _HANDSHAKE,
    "SSL_accept": _ACCEPTS.replace("FUNCTION", "SSL_accept"),
    "SSL_set_accept_state": _ACCEPTS.replace("FUNCTION", "SSL_set_accept_state"),
    "SSL_free": _FREE,
    **{each: _call(each) for each in ("SSL_read", "SSL_read_ex", "SSL_write", "SSL_write_ex")},
}
FUNCTIONS = tuple(_TEXTS)
"""Names of the functions that are probed."""
