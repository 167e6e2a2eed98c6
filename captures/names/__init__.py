"""Names of addresses: from hosts files, from kubectl's tables, of processes. Nothing here queries a name server."""

from captures.names.files import NamesError, read_names
from captures.names.names import Names

__all__ = ["Names", "NamesError", "read_names"]
