"""Export formats: pcapng with original or synthetic packets, optionally scrubbed; JSON lines, CSV, Parquet, Mermaid.

Exporters take a :class:`~captures.exchanges.Capture` or its exchanges and write to a file object opened by the caller.
A format's modules are imported only when it is used: only Parquet needs pyarrow.
"""
