"""Captures written out: pcapng with original or synthetic packets, scrubbed or not; JSON lines, CSV, Parquet, Mermaid.

Everything here takes a :class:`~captures.exchanges.Capture` or its exchanges and writes to a file object that the
caller opened. Nothing is imported until a format is asked for: pyarrow is needed by Parquet alone.
"""
