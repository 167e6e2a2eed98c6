"""The content of the detail pane: an exchange's fields with their meaning, and the bytes they were read from.

Does not depend on Textual, like the session.
"""

from kproxy.tui.detail.make import detail_of
from kproxy.tui.detail.nodes import ByteBuffer, Detail, FieldNode, Role, SideDetail

__all__ = ["ByteBuffer", "Detail", "FieldNode", "Role", "SideDetail", "detail_of"]
