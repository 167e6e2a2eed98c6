"""The live proxy: clients on one side, brokers on the other, and their traffic recorded as a capture.

Three processes; each can be slow or die without affecting those listed before it:

* the **data plane** (:mod:`kproxy.proxy.plane`) forwards. It reads only frame headers, and whole messages only if it
  must rewrite an address in them or a rule needs them;
* the **recorder** (:mod:`kproxy.proxy.recorder`) takes bytes out of the tee (:mod:`kproxy.proxy.tee`), a bounded queue
  in shared memory, and appends them to a capture, unmodified, as packets of connections between the real client and
  the real broker;
* the **front** (:mod:`kproxy.cli.proxy`), or any ``kproxy attach``, reads that capture as it grows, and controls the
  data plane through its control socket (:mod:`kproxy.proxy.control`).
"""
