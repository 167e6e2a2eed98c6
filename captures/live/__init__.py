"""Live capture: packets from an interface into chunk files, which are read while they grow.

::

    device (libpcap, or an AF_PACKET socket)
      -> Sniffer: a thread that moves packets from the device to the ring, mostly in C
      -> Ring: chunk files on disk of limited total size, each a whole pcap file
      -> ring_source(): the chunks as one growing source for the packet reader
      -> LiveCapture: a capture like any other that forgets old exchanges
      -> Recorder: copies the surroundings of a match out of the chunks before they are dropped

There is one reader for live and for recorded traffic: live is a capture that grows. Modules that need privileges
inspect no packets: :mod:`.device`, :mod:`.pcap`, :mod:`.packet_socket`, :mod:`.privileges` and :mod:`.process_finder`
import only the standard library, so that privileges are dropped before anything else is even imported. This module
imports nothing for the same reason.
"""
