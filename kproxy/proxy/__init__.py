"""The live proxy: clients on one side, brokers on the other, and their traffic recorded as a capture.

Three processes, each of which can be slow or die without the ones above it noticing:

* the **data plane** (:mod:`kproxy.proxy.plane`) forwards. It reads only frame headers, and whole messages if it must
  rewrite an address in them or a rule needs them;
* the **recorder** (:mod:`kproxy.proxy.recorder`) takes bytes out of the tee (:mod:`kproxy.proxy.tee`), a bounded queue
  in shared memory, and appends them to a capture as packets of connections between the real client and the real
  broker, as they were before kproxy changed anything;
* the **front** (:mod:`kproxy.cli.proxy`), or any ``kproxy attach``, reads that capture as it grows, and controls the
  data plane through its control socket (:mod:`kproxy.proxy.control`).
"""
