"""Decoded bodies made ready to be shown: names, inner protocols, record sets, and secrets masked.

:class:`Annotator` takes what :mod:`dissectors.frames` decoded and turns it, in place, into what programs and people
read: record fields become lists of batches, secrets become None. What is known beyond the schema's fields is kept
apart, by field path: names of error codes and enumerations, topics behind topic IDs, the protocols inside bytes
fields, unknown tags.

Which fields of a message need anything is worked out once per layout (a *plan*); all others are not touched.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dissectors import embedded, wire
from dissectors.apis import api_name
from dissectors.budget import Budget, limit_of, of_message
from dissectors.domains import ERROR_CODE, Domain, FlagDomain, feature_level_name
from dissectors.frames import Body, Problem
from dissectors.knowledge import Knowledge
from dissectors.record_values import Notes, RecordValues
from dissectors.walks import Action, Inside, Plan, Walk, compiled

Side = Literal["request", "response"]

_KEY_AND_VERSION = struct.Struct(">hh")

# what names the topic of a struct, and all that is inside
_TOPIC_FIELDS = frozenset({"topic", "name", "topic_id", "topic_name"})


@dataclass(slots=True)
class Annotations:
    """What stands beside the bodies of one exchange.

    :ivar decoded: what is known beyond the fields, by path: ``response.topics[0].error_code``
    :ivar masked: paths of the values that were replaced by None because they are secret
    :ivar problems: what was wrong inside record sets and inner protocols, by side
    """

    decoded: dict[str, Any] = field(default_factory=dict)
    masked: list[str] = field(default_factory=list)
    problems: list[tuple[Side, Problem]] = field(default_factory=list)


@dataclass(slots=True)
class _Scope:
    """Where the walk is: everything a step may need besides its value."""

    out: Annotations
    decoded: dict[str, Any]
    side: Side
    connection: Hashable
    request: dict[str, Any]
    root: dict[str, Any]
    budget: Budget | None
    topic: str | None = None

    def shared_budget(self) -> Budget:
        """Return the budget of the message; most messages need none, so it is made when it is asked for."""
        if self.budget is None:
            self.budget = of_message()
        return self.budget


class Annotator:
    """Annotates the bodies of exchanges, one after the other, in capture order.

    :param knowledge: facts from earlier exchanges; the caller shows it every exchange
    :param show_secrets: leave passwords, tokens and keys readable
    :param payload: ``full`` shows records whole, ``preview`` their first bytes, ``none`` only batch headers
    """

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        show_secrets: bool = False,
        payload: Literal["full", "preview", "none"] = "full",
    ) -> None:
        self.knowledge = knowledge
        self.show_secrets = show_secrets
        self.records = RecordValues(payload, show_secrets=show_secrets)
        self._walks: dict[tuple[int, int | None, Side], Walk | None] = {}

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
        """Make ``body.value`` ready to be shown, in place, and add to ``out``.

        :param connection: key by which :class:`Knowledge` knows the connection
        :param request: the decoded request, where ``body`` is its response
        :param budget: of the message that ``body`` is inside of; None: it has its own
        """
        walk, value = self._walk_of(body, side), body.value
        if walk is None or value is None:
            return
        walk(value, _Scope(out, out.decoded, side, connection, request or value, value, budget))

    def token(
        self, token: bytes, side: Side, out: Annotations, *, connection: Hashable = None
    ) -> dict[str, bytes | None]:
        """Read a raw SASL token (SaslHandshake v0, Kafka 0.9): what it says goes to ``out``, what it is is returned."""
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
    def _walk_of(self, body: Body, side: Side) -> Walk | None:
        read_as = body.key, body.version, side
        if read_as not in self._walks:
            message = body.message(response=side == "response")
            self._walks[read_as] = None if message is None else compiled(self._plan(message.struct), side)
        return self._walks[read_as]

    def _plan(self, struct: wire.Struct) -> Plan:
        errors: list[str] = []
        named: list[tuple[str, Mapping[Any, str]]] = []
        steps: list[tuple[str, Action | Inside]] = []
        for member in [*struct.members, *(struct.tagged or {}).values()]:
            domain = member.field.type.domain
            if isinstance(member.con, wire.Fixed) and domain is not None:
                if domain is ERROR_CODE:
                    errors.append(member.name)
                    continue
                if not isinstance(domain, FlagDomain):
                    named.append((member.name, domain.values))
                    continue
            step = self._step(member)
            if step is not None:
                steps.append((member.name, step))
        return Plan(tuple(errors), tuple(named), tuple(steps), struct.tagged is not None)

    def _step(self, member: wire.Member) -> Action | Inside | None:
        con, type_ = member.con, member.field.type
        if isinstance(con, wire.NullableStruct):
            con = con.struct
        if isinstance(con, wire.Struct):
            plan = self._plan(con)
            return Inside(plan, many=False) if plan else None
        if isinstance(con, wire.Array):
            element = getattr(type_, "element", type_)
            if isinstance(con.element, wire.Struct):
                return self._each(con.element)
            return self._each_leaf(element.content, element.domain or type_.domain)
        if isinstance(con, wire.Records):
            return self._records
        if type_.domain is not None:
            return _domain_name(type_.domain)
        return self._content(type_.content, secret=type_.is_secret)

    def _each(self, struct: wire.Struct) -> Inside | None:
        plan = self._plan(struct)
        if not plan:
            return None
        topical = not _TOPIC_FIELDS.isdisjoint(member.name for member in struct.members)
        return Inside(
            plan, many=True, topic_of=self._topic_of if topical and self._has_records(plan) else None
        )

    def _has_records(self, plan: Plan) -> bool:
        return any(
            self._has_records(step.plan) if isinstance(step, Inside) else step == self._records
            for _, step in plan.steps
        )

    def _content(self, content: str, *, secret: bool) -> Action | None:
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
                return self._config_value
            case "unaligned_records":
                return self._records
            case _:
                return self._embedded(content, secret=secret)

    def _topic_of(self, item: dict[str, Any]) -> str | None:
        name = item.get("topic") or item.get("topic_name") or item.get("name")
        if not name and "topic_id" in item:
            name = self.knowledge.topic_name(item["topic_id"])
        return name if isinstance(name, str) else None

    def _each_leaf(self, content: str, domain: Domain | None) -> Action | None:
        if content == "topic_id":
            one: Action = self._topic_id
        elif domain is not None:
            one = _domain_name(domain)
        else:
            return None

        def walk(value: Any, path: str, holder: dict[str, Any], scope: _Scope) -> Any:
            for index, item in enumerate(value):
                one(item, f"{path}[{index}]", holder, scope)
            return value

        return walk

    # ------------------------------------------------------------ actions
    def _topic_id(self, value: Any, path: str, holder: dict[str, Any], scope: _Scope) -> Any:
        name = self.knowledge.topic_name(value)
        if name is not None:
            scope.out.decoded[path] = name
        return value

    def _mask(self, value: Any, path: str, holder: dict[str, Any], scope: _Scope) -> Any:
        if self.show_secrets:
            return value
        scope.out.masked.append(path)
        return None

    def _config_value(self, value: Any, path: str, holder: dict[str, Any], scope: _Scope) -> Any:
        name = holder.get("name") or scope.root.get("name") or ""
        return self._mask(value, path, holder, scope) if embedded.sensitive_config(name) else value

    def _records(self, value: Any, path: str, holder: dict[str, Any], scope: _Scope) -> Any:
        aligned = "unaligned" not in path
        notes = Notes(scope.out.decoded, scope.out.masked)
        shown = self.records.show(
            value, path, scope.topic, notes, aligned=aligned, budget=scope.shared_budget()
        )
        for problem in notes.problems:
            reason = f"{problem.reason} (byte {problem.offset} of the records)"
            self._problem(scope, path, problem.field_path, reason, limit_of(problem))
        return shown

    def _embedded(self, content: str, *, secret: bool) -> Action:
        def decode(value: Any, path: str, holder: dict[str, Any], scope: _Scope) -> Any:
            found = embedded.decode(content, value, self._hints(holder, scope))
            if found.value is not None:
                scope.out.decoded[path] = found.value
            for inner, name in found.names.items():
                scope.out.decoded[f"{path}.{inner}"] = name
            if found.guess:
                scope.out.decoded[f"{path}#guess"] = found.guess
            for _, where, reason in found.problems:
                self._problem(scope, path, where, f"{reason} ({found.label})", found.limit)
            scope.out.masked.extend(f"{path}.{inner}" for inner in found.masked)
            # a secret inside is readable in the bytes that it is inside of
            return self._mask(value, path, holder, scope) if secret or found.masked else value

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


def _enveloped(data: Any) -> tuple[int | None, int | None]:
    """Return key and version of the request inside an Envelope request, if there is one."""
    if isinstance(data, bytes) and len(data) >= _KEY_AND_VERSION.size:
        key, version = _KEY_AND_VERSION.unpack_from(data)
        return key, version
    return None, None


def _domain_name(domain: Domain) -> Action:
    def name(value: Any, path: str, holder: dict[str, Any], scope: _Scope) -> Any:
        found = domain.name_of(value)
        if found is not None:
            scope.out.decoded[path] = found
        return value

    return name


def _api_name(value: Any, path: str, holder: dict[str, Any], scope: _Scope) -> Any:
    scope.out.decoded[path] = api_name(value)
    return value


def _feature_level(value: Any, path: str, holder: dict[str, Any], scope: _Scope) -> Any:
    found = feature_level_name(holder.get("name") or holder.get("feature") or "", value)
    if found is not None:
        scope.out.decoded[path] = found
    return value
