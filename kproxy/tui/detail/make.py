"""Makes the detail pane's content from an exchange. Runs in the engine thread, because it traces and decompresses."""

from __future__ import annotations

from captures.exchanges import Capture, Exchange
from captures.exchanges.table import Flag
from dissectors.frames import Body, trace_body
from dissectors.headers import SIZE_BYTES
from dissectors.masks import UNDECODED
from dissectors.sides import Side
from dissectors.trace import Node
from kproxy.text.interventions import Changes
from kproxy.text.values import short
from kproxy.tui.detail.fields import Fields
from kproxy.tui.detail.nodes import Detail, FieldNode, Role, SideDetail

MAX_RECORDS = 2_000
"""Records shown per frame, each with some ten fields, so that details appear at once. The tree states how many there
are, and the bytes contain them all."""
_MAX_PROBLEMS = 20


def detail_of(
    exchange: Exchange,
    capture: Capture | None = None,
    *,
    show_secrets: bool = False,
    max_records: int = MAX_RECORDS,
) -> Detail:
    """Return the detail pane's content for an exchange.

    :param exchange: annotated
    :param capture: for the TCP segments that carried the frames
    :param show_secrets: whether the exchange was annotated with secrets
    :param max_records: maximum number of records shown per frame
    """
    maker = _Maker(exchange, capture, show_secrets=show_secrets, max_records=max_records)
    return Detail(exchange.number, exchange.api, maker.side("request"), maker.side("response"))


class _Maker:
    def __init__(
        self, exchange: Exchange, capture: Capture | None, *, show_secrets: bool, max_records: int
    ) -> None:
        self._exchange = exchange
        self._capture = capture
        self._show_secrets = show_secrets
        self._max_records = max_records

    def side(self, side: Side) -> SideDetail:
        exchange = self._exchange
        body = exchange.body(side)
        token = exchange.tokens[0 if side == "request" else 1]
        version = body.version if body is not None and body.version is not None else exchange.version
        title = exchange.api if version is None else f"{exchange.api} v{version}"
        if body is None and token is None:
            return SideDetail(side, title, absent=self._absent(side))
        changes = Changes(exchange, side, short)
        fields = Fields(exchange, side, changes)
        size = exchange.size(side)
        root = (
            self._frame(body, fields, title, side, size)
            if body is not None
            else self._token(token or b"", fields, title, side)
        )
        missing = max(size - root.end, 0)
        root.note = _about(body, root.end, missing)
        self._remark(root, side, changes, fields)
        buffers = fields.buffers(self._segments(side, root.end), missing)
        return SideDetail(side, title, root, "", buffers, fields.nodes)

    # ------------------------------------------------------------ trees
    def _frame(self, body: Body, fields: Fields, title: str, side: Side, size: int) -> FieldNode:
        traced = trace_body(body, response=side == "response", records=True, max_records=self._max_records)
        # the size is known even if a part of the frame is missing
        prefix = max(size - SIZE_BYTES, len(body.raw)).to_bytes(SIZE_BYTES, "big")
        root = FieldNode(title, side, Role.FIELD, "frame", None, 0, 0, traced.end)
        fields.begin("frame", root, prefix + body.raw)
        parts = {str(part.name): part for part in traced.children or ()}
        rest, main = parts.get("undecoded"), parts.get("body")
        end = traced.end if rest is None else rest.start
        self._header(parts["size"], parts["header"], fields, root, main.start if main is not None else end)
        members = list(main.children or ()) if main is not None else []
        for at, child in enumerate(members):
            limit = members[at + 1].start if at + 1 < len(members) else end
            fields.add(child, Node("body", 0, "struct").path_of(child, side), root, limit)
        if rest is not None:
            fields.add(rest, f"{side}.undecoded", root, rest.end)
        if f"{side}.{UNDECODED}" in fields.masks:
            self._hide_undecoded(root, fields)
        return root

    @staticmethod
    def _header(size: Node, header: Node, fields: Fields, root: FieldNode, end: int) -> None:
        """Combine size and header in one node: they are alike in all frames, and seldom looked at."""
        size.value = int.from_bytes(fields.frame[:SIZE_BYTES], "big")
        both = Node("header", 0, "struct", end=end if header.end >= 0 else -1)
        both.children = [size, *(header.children or ())]
        made = fields.add(both, f"{root.path}.header", root, end)
        values = {child.name: child for child in made.children}
        values["size"].doc = "bytes that follow"
        parts = [
            f"{name} {values[name].text()}" for name in ("correlation_id", "client_id") if name in values
        ]
        made.note = "  ".join(parts)

    @staticmethod
    def _hide_undecoded(root: FieldNode, fields: Fields) -> None:
        """Mask uncertainly decoded parts, which may contain secrets."""
        unsure = [node for node in root.walk() if node.buffer == 0 and node.leaf and node.incomplete]
        unsure += [node for node in root.children if node.name == "undecoded"]
        for node in unsure:
            node.masked, node.value = True, None
        if unsure:
            fields.hide(min(node.start for node in unsure), root.end)

    @staticmethod
    def _token(token: bytes, fields: Fields, title: str, side: Side) -> FieldNode:
        end = SIZE_BYTES + len(token)
        root = FieldNode(title, side, Role.FIELD, "frame", None, 0, 0, end)
        fields.begin("frame", root, len(token).to_bytes(SIZE_BYTES, "big") + token)
        fields.add(Node("size", 0, "int32", None, SIZE_BYTES, len(token)), f"{side}.size", root, SIZE_BYTES)
        fields.add(Node("token", SIZE_BYTES, "bytes", None, end, token), f"{side}.token", root, end)
        return root

    # ------------------------------------------------------------ remarks
    def _remark(self, root: FieldNode, side: Side, changes: Changes, fields: Fields) -> None:
        exchange = self._exchange
        first = "request" if exchange.request is not None or exchange.tokens[0] is not None else "response"
        if side == first:
            for line in exchange.note.comment.splitlines():
                _add_remark(root, Role.COMMENT, line, root)
        found = [
            problem for where, problem in exchange.problems + exchange.annotations.problems if where == side
        ]
        for problem in found[:_MAX_PROBLEMS]:
            at = f"byte {problem.offset}: " if problem.offset >= 0 else ""
            where = f"{problem.path}: " if problem.path else ""
            about = fields.nodes.get(f"{side}.{problem.path}", root)
            _add_remark(root, Role.PROBLEM, f"{at}{where}{problem.reason}", about)
        if len(found) > _MAX_PROBLEMS:
            _add_remark(root, Role.PROBLEM, f"{len(found) - _MAX_PROBLEMS:,} more problems", root)
        for line in changes.lines():
            _add_remark(root, Role.CHANGE, line.removeprefix("~ "), root)

    def _absent(self, side: Side) -> str:
        flag = self._exchange.flag
        if side == "request":
            return "the request was not captured"
        if Flag.NO_RESPONSE_EXPECTED in flag:
            return "none expected"
        if Flag.SASL_TOKEN in flag:
            return "no token came back"
        if Flag.NOT_RECORDED in flag:
            return "not recorded: bytes are missing where it would be"
        return "no answer" if Flag.UNANSWERED in flag else "no answer yet"

    def _segments(self, side: Side, end: int) -> tuple[int, ...]:
        """Return the offsets in the frame at which packet payloads start."""
        capture, exchange = self._capture, self._exchange
        if capture is None:
            return ()
        start = capture.table.row(exchange.row)[f"{side}_position"]
        stream = capture.client_stream(exchange.connection) ^ (side == "response")
        index = capture.decryption.index_of(exchange.connection)
        positions, _, _ = index.pieces(stream, start, start + end)
        segments: list[int] = (positions - start).tolist()
        return tuple(segments)


def _add_remark(root: FieldNode, role: Role, text: str, about: FieldNode) -> None:
    """Add a remark line; selecting it shows the bytes of `about`."""
    node = FieldNode(text, "", role, "", None, about.buffer, about.start, about.end)
    node.leaf, node.parent = True, root
    root.remarks.append(node)


def _about(body: Body | None, have: int, missing: int) -> str:
    size = f"{have:,} of {have + missing:,} bytes captured" if missing else f"{have:,} bytes"
    return f"{size} ({body.guess})" if body is not None and body.guess else size
