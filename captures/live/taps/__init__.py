"""Taps: what processes say over TLS, read where it is plaintext, at the calls of their TLS library (Linux).

bpftrace sets uprobes on ``SSL_read`` and ``SSL_write`` and prints the bytes of each call, with the position in the
stream that the kernel counts. From there on they are packets: of the process's real TCP connection, at the times of the
calls. Calls that were lost on the way are missing bytes of a stream, as lost packets are.

::

    libraries.py      processes -> files with functions of a TLS library
    script.py         files -> a program for bpftrace
    calls.py          lines of that program -> packets
    device.py         all of it, as a device to capture from
    jvm.py            JVMs have no such library: a Java agent that writes a key log
"""
