"""The live proxy: clients on one side, brokers on the other, and everything they say as a capture.

Three processes, each of which can be slow or die without the ones above it noticing:

* the **data plane** (:mod:`kproxy.proxy.plane`) forwards. It looks at frame headers only, and at whole messages where
  an address in them must be rewritten or a rule asks for it;
* the **recorder** (:mod:`kproxy.proxy.recorder`) takes bytes out of the tee (:mod:`kproxy.proxy.tee`), a bounded queue
  in shared memory, and appends them to a capture as packets of connections between the real client and the real
  broker, as they were before kproxy changed anything;
* the **front** (:mod:`kproxy.cli.proxy`), or any ``kproxy attach``, reads that capture as it grows, and asks and tells
  the data plane over its control socket (:mod:`kproxy.proxy.control`).
"""
