"""Live capture: packets from an interface into chunk files, which are read while they grow.

::

    device (libpcap, or an AF_PACKET socket)
      -> Sniffer: a thread that moves packets from the device to the ring, mostly in C
      -> Ring: chunk files on disk within a bound, each a whole pcap file
      -> ring_source(): the chunks as one growing source for the packet reader
      -> LiveCapture: a capture like any other, that forgets what is old
      -> Recorder: what surrounds a match, copied out of the chunks before they are dropped

There is one reader for live and for recorded traffic: live is a capture that grows. What takes privileges looks inside
no packet: :mod:`.device`, :mod:`.pcap`, :mod:`.packet_socket`, :mod:`.privileges` and :mod:`.process_finder` import
nothing but the standard library, so that privileges are given up before anything else is even imported. This module
imports nothing for the same reason.
"""
