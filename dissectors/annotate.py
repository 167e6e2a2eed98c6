"""Decoded bodies prepared for display: names, inner protocols, record sets and masked secrets.

:class:`Annotator` converts what :mod:`dissectors.frames` decoded, in place, into what programs and people read: record
fields become lists of batches, secrets become None. Facts beyond the schema's fields are kept separately, by field
path: names of error codes and enumerations, topics behind topic IDs, the protocols inside bytes fields, unknown tags.

A plan, prepared once per layout, says which fields of a message need work; the others are not touched.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from typing import Any, Literal

import msgspec

from dissectors import embedded, wire
from dissectors.apis import api_name
from dissectors.budget import Budget, limit_of, message_budget
from dissectors.domains import Domain, feature_level_name
from dissectors.embedded.secrets import SECRET_CONTENTS, SENSITIVITY, api_may_hold_secrets, secret_config
from dissectors.entities import TOPIC_FIELDS
from dissectors.frames import Body, Problem
from dissectors.masks import UNDECODED
from dissectors.record_values import RecordNotes, RecordValues
from dissectors.session_context import SessionContext
from dissectors.sides import Side
from dissectors.visitor import Action, Holders, Step, Visitor, compiled, domain_name, join, naming, plan_of

_KEY_AND_VERSION = struct.Struct(">hh")


class Annotations(msgspec.Struct):
    """Annotations that accompany the bodies of one exchange.

    :ivar decoded: facts beyond the fields, by path: ``response.topics[0].error_code``
    :ivar masked: paths of the values that were replaced by None because they are secret
    :ivar problems: what was wrong inside record sets and inner protocols, by side
    """

    decoded: dict[str, Any] = {}
    masked: list[str] = []
    problems: list[tuple[Side, Problem]] = []


class _Scope(msgspec.Struct):
    """Everything that a step of the visitor may need besides its value."""

    out: Annotations
    decoded: dict[str, Any]
    side: Side
    connection: Hashable
    request: dict[str, Any]
    root: dict[str, Any]
    budget: Budget | None

    def shared_budget(self) -> Budget:
        """Return the budget of the message. It is created on demand, because most messages need none."""
        if self.budget is None:
            self.budget = message_budget()
        return self.budget


class Annotator:
    """Annotates the bodies of exchanges one after another in capture order.

    :param knowledge: facts from earlier exchanges; the caller feeds it every exchange
    :param show_secrets: leave passwords, tokens and keys readable
    :param payload: ``full`` shows records whole, ``preview`` their first bytes, ``none`` only batch headers
    """

    def __init__(
        self,
        knowledge: SessionContext,
        *,
        show_secrets: bool = False,
        payload: Literal["full", "preview", "none"] = "full",
    ) -> None:
        self.knowledge = knowledge
        self.show_secrets = show_secrets
        self.records = RecordValues(payload, show_secrets=show_secrets)
        self._visitors: dict[tuple[int, int | None, Side], Visitor | None] = {}

    def annotate(
        self,
        body: Body,
        side: Side,
        out: Annotations,
        *,
        connection: Hashable = None,
        request: dict[str, Any] | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Prepare ``body.value`` for display, in place, and add to ``out``.

        :param connection: key by which :class:`SessionContext` knows the connection
        :param request: the decoded request if ``body`` is its response
        :param budget: budget of the message that contains ``body``; None gives it its own
        """
        visit, value = self._visitor_of(body, side), body.value
        if visit is not None and value is not None:
            visit(value, _Scope(out, out.decoded, side, connection, request or value, value, budget))
        if not self.show_secrets and api_may_hold_secrets(body.key, response=side == "response"):
            _mask_unknown(body, side, out)

    def token(
        self, token: bytes, side: Side, out: Annotations, *, connection: Hashable = None
    ) -> dict[str, bytes | None]:
        """Decode a raw SASL token (SaslHandshake v0, Kafka 0.9) into ``out`` and return it as a body, masked unless
        secrets are shown.
        """
        hints = embedded.Hints(mechanism=self.knowledge.mechanism(connection), show_secrets=self.show_secrets)
        found = embedded.decode("sasl_token", token, hints)
        path = f"{side}.token"
        if found.value is not None:
            out.decoded[path] = found.value
        out.masked.extend(f"{path}.{inner}" for inner in found.masked)
        if self.show_secrets:
            return {"token": token}
        out.masked.append(path)
        return {"token": None}

    # ------------------------------------------------------------ plans
    def _visitor_of(self, body: Body, side: Side) -> Visitor | None:
        read_as = body.key, body.version, side
        if read_as not in self._visitors:
            message = body.message(response=side == "response")
            self._visitors[read_as] = (
                None
                if message is None
                else compiled(plan_of([message.struct], self._choose, _take_tags), side)
            )
        return self._visitors[read_as]

    def _choose(self, member: wire.Member, struct: wire.Struct) -> Step | None:
        con, type_ = member.con, member.field.type
        if isinstance(con, wire.Array):
            return self._each_leaf(type_.value.content, type_.value.domain or type_.domain)
        if isinstance(con, wire.Records):
            return self._records
        if type_.domain is not None:
            return naming(member)
        flagged = any(other.name == SENSITIVITY for other in struct.members)
        return self._content(type_.content, secret=type_.is_secret, flagged=flagged)

    def _content(self, content: str, *, secret: bool, flagged: bool) -> Action | None:
        match content:
            case "":
                return self._mask if secret else None
            case "topic_id":
                return self._topic_id
            case "api_key":
                return _api_name
            case "feature_level":
                return _feature_level
            case "config_value":
                return self._flagged_config_value if flagged else self._config_value
            case "sensitivity":
                return self._sensitivity
            case "unaligned_records":
                return self._records
            case _:
                return self._embedded(content, secret=secret)

    def _topic_of(self, holders: Holders) -> str | None:
        """Return the topic of the innermost struct that names one."""
        for item in reversed(holders[1:]):
            name: Any = next((item[field] for field in TOPIC_FIELDS if item.get(field)), None)
            if not name and "topic_id" in item:
                name = self.knowledge.topic_name(item["topic_id"])
            if name and isinstance(name, str):
                return name
        return None

    def _each_leaf(self, content: str, domain: Domain | None) -> Action | None:
        if content == "topic_id":
            one: Action = self._topic_id
        elif domain is not None:
            one = domain_name(domain)
        else:
            return None

        def walk(value: Any, path: str, holders: Holders, scope: _Scope) -> Any:
            for index, item in enumerate(value):
                one(item, f"{path}[{index}]", holders, scope)
            return value

        return walk

    # ------------------------------------------------------------ actions
    def _topic_id(self, value: Any, path: str, holders: Holders, scope: _Scope) -> Any:
        name = self.knowledge.topic_name(value)
        if name is not None:
            scope.out.decoded[path] = name
        return value

    def _mask(self, value: Any, path: str, holders: Holders, scope: _Scope) -> Any:
        if self.show_secrets:
            return value
        scope.out.masked.append(path)
        return None

    def _config_value(self, value: Any, path: str, holders: Holders, scope: _Scope) -> Any:
        secret = secret_config(holders[-1], scope.root.get("name") or "")
        return self._mask(value, path, holders, scope) if secret else value

    def _flagged_config_value(self, value: Any, path: str, holders: Holders, scope: _Scope) -> Any:
        return self._mask(value, path, holders, scope) if secret_config(holders[-1], flagged=True) else value

    def _sensitivity(self, value: Any, path: str, holders: Holders, scope: _Scope) -> Any:
        """Mask the synonyms of a secret configuration; they have no flag of their own."""
        if secret_config(holders[-1]):
            outer = path.rpartition(".")[0]
            for index, synonym in enumerate(holders[-1].get("synonyms") or ()):
                if synonym.get("value") is not None:
                    where = f"{outer}.synonyms[{index}].value"
                    synonym["value"] = self._mask(synonym["value"], where, holders, scope)
        return value

    def _records(self, value: Any, path: str, holders: Holders, scope: _Scope) -> Any:
        aligned = "unaligned" not in path
        topic = self._topic_of(holders) if value else None
        notes = RecordNotes(scope.out.decoded, scope.out.masked)
        shown = self.records.show(value, path, topic, notes, aligned=aligned, budget=scope.shared_budget())
        for problem in notes.problems:
            reason = f"{problem.reason} (byte {problem.offset} of the records)"
            self._problem(scope, path, problem.field_path, reason, limit_of(problem))
        return shown

    def _embedded(self, content: str, *, secret: bool) -> Action:
        def decode(value: Any, path: str, holders: Holders, scope: _Scope) -> Any:
            found = embedded.decode(content, value, self._hints(holders[-1], scope))
            if found.value is not None:
                scope.out.decoded[path] = found.value
            for inner, name in found.names.items():
                scope.out.decoded[f"{path}.{inner}"] = name
            if found.guess:
                scope.out.decoded[f"{path}#guess"] = found.guess
            for _, where, reason in found.problems:
                self._problem(scope, path, where, f"{reason} ({found.label})", found.limit)
            scope.out.masked.extend(f"{path}.{inner}" for inner in found.masked)
            # the bytes around a secret reveal it, and undecoded bytes may contain one
            unread = found.value is None and content in SECRET_CONTENTS
            hidden = secret or found.masked or unread
            return self._mask(value, path, holders, scope) if hidden else value

        return decode

    def _hints(self, holder: dict[str, Any], scope: _Scope) -> embedded.Hints:
        request, root = scope.request, scope.root
        group = (
            holder.get("group_id")
            or root.get("group_id")
            or request.get("group_id")
            or root.get("group")
            or ""
        )
        known_type, known_name = self.knowledge.group_protocol(group)
        inner_key, inner_version = _enveloped(request.get("request_data"))
        return embedded.Hints(
            protocol_type=(
                holder.get("protocol_type")
                or root.get("protocol_type")
                or request.get("protocol_type")
                or known_type
            ),
            protocol_name=(
                (holder.get("name") if "metadata" in holder else None)
                or root.get("protocol_name")
                or request.get("protocol_name")
                or known_name
            ),
            mechanism=self.knowledge.mechanism(scope.connection),
            compression=root.get("compression_type"),
            inner_key=inner_key,
            inner_version=inner_version,
            show_secrets=self.show_secrets,
            budget=scope.shared_budget(),
        )

    @staticmethod
    def _problem(scope: _Scope, path: str, where: str, reason: str, limit: str) -> None:
        inner = path.removeprefix(f"{scope.side}.") + (f".{where}" if where else "")
        scope.out.problems.append((scope.side, Problem(-1, inner, reason, limit)))


def _mask_unknown(body: Body, side: Side, out: Annotations) -> None:
    """Mask what no declaration describes: unknown tags and bytes that were not decoded."""
    tags = wire.UNKNOWN_TAGS
    if tags in body.header:
        out.masked.extend(f"{side}.header.{tags}[{tag}]" for tag in body.header[tags])
        body.header[tags] = dict.fromkeys(body.header[tags])
    for path, found in out.decoded.items():
        if path.endswith(f".{tags}") and path.startswith(f"{side}."):
            out.masked.extend(f"{path}[{tag}]" for tag in found)
            out.decoded[path] = dict.fromkeys(found)
    if body.problems or body.value is None:
        out.masked.append(f"{side}.{UNDECODED}")


def _enveloped(data: Any) -> tuple[int | None, int | None]:
    """Return API key and version of the request inside an Envelope request, None if there is none."""
    if isinstance(data, bytes) and len(data) >= _KEY_AND_VERSION.size:
        key, version = _KEY_AND_VERSION.unpack_from(data)
        return key, version
    return None, None


def _take_tags(path: str, holders: Holders, scope: _Scope) -> None:
    """Move unknown tags out of a struct: a body holds only the schema's fields."""
    tags = holders[-1].pop(wire.UNKNOWN_TAGS)
    scope.decoded[join(path, wire.UNKNOWN_TAGS)] = {str(tag): data for tag, data in tags.items()}


def _api_name(value: Any, path: str, holders: Holders, scope: _Scope) -> Any:
    scope.out.decoded[path] = api_name(value)
    return value


def _feature_level(value: Any, path: str, holders: Holders, scope: _Scope) -> Any:
    found = feature_level_name(holders[-1].get("name") or holders[-1].get("feature") or "", value)
    if found is not None:
        scope.out.decoded[path] = found
    return value
