"""Summaries of SASL, ACLs, SCRAM credentials and delegation tokens.

Summaries never contain secrets: of a SASL token they state the mechanism, the step and the user name, and of delegation
tokens the owner.
"""

from __future__ import annotations

from captures.meaning import words
from captures.meaning.exchange import Bodies, Body, SummaryWriter, items, number, rows, text
from captures.meaning.words import join, listed, value_name
from dissectors.api_keys import ApiKey
from dissectors.domains import ACL_OPERATION, ACL_PERMISSION, PATTERN_TYPE, RESOURCE_TYPE, SCRAM_MECHANISM
from dissectors.embedded import sasl
from dissectors.embedded.model import NO_HINTS
from dissectors.left_out import original_size

_ANY = 1
_LITERAL = 3
_USER_LENGTH = 60


# ---------------------------------------------------------------- SASL
def _handshake_errors(x: Bodies) -> str:
    offered = items(x.response, "mechanisms")
    return f"offered: {words.some(offered, 6)}" if offered else ""


def _authenticate_response(x: Bodies) -> str:
    lifetime = number(x.response, "session_lifetime_ms", 0)
    # SCRAM takes more than one step: an empty response to it is a broker's error, not success
    asked = token(x.request.get("auth_bytes"), "")
    empty = "empty answer" if asked.startswith("SCRAM") and not asked.endswith("proof") else "ok"
    step = token(x.response.get("auth_bytes"), empty)
    return listed((step, f"again within {words.duration(lifetime)}" if lifetime > 0 else ""))


def token(data: object, empty: str) -> str:
    """Return mechanism, user and step of a SASL token, never its secret.

    :param empty: meaning of an empty token, such as the success of PLAIN
    """
    if not isinstance(data, bytes):
        return "token"
    if not data:
        return empty
    value = sasl.decode(data, NO_HINTS).value
    if value is None:
        return f"token {words.size(original_size(data))}"
    mechanism, message = value["mechanism"], value["message"]
    if message == "server-first":
        return f"challenge, {value['iterations']} iterations"
    if message == "server-final":
        return "ok"
    if message == "server error":
        return f"refused: {words.clipped(str(value.get('error', '?')), _USER_LENGTH)}"
    user = sasl.identity(value) or value.get("authzid")
    step = "" if user else " proof" if message == "client-final" else f" {message}"
    return f"{mechanism}{f' {words.clipped(user, _USER_LENGTH)}' if user else ''}{step}"


# ---------------------------------------------------------------- ACLs
def acl(row: Body, pattern_field: str = "resource_pattern_type") -> str:
    """Return the text of one ACL: ``allow User:alice read topic orders``."""
    pattern = number(row, pattern_field, _LITERAL)
    name = text(row, "resource_name", "?")
    host = text(row, "host", "*")
    return " ".join(
        (
            value_name(ACL_PERMISSION, row.get("permission_type")),
            text(row, "principal", "?"),
            value_name(ACL_OPERATION, row.get("operation")),
            value_name(RESOURCE_TYPE, row.get("resource_type")),
            name if pattern == _LITERAL else f"{name} ({value_name(PATTERN_TYPE, pattern)})",
            *((f"from {host}",) if host != "*" else ()),
        )
    )


def acl_filter(row: Body) -> str:
    """Return the text of an ACL filter, without the parts that match anything."""
    pattern = number(row, "pattern_type_filter", _LITERAL)
    wanted = [
        value_name(ACL_PERMISSION, row.get("permission_type"))
        if number(row, "permission_type") > _ANY
        else "",
        text(row, "principal_filter"),
        value_name(ACL_OPERATION, row.get("operation")) if number(row, "operation") > _ANY else "",
        value_name(RESOURCE_TYPE, row.get("resource_type_filter"))
        if number(row, "resource_type_filter") > _ANY
        else "",
        text(row, "resource_name_filter"),
        "" if pattern in (_LITERAL, _ANY) else f"({value_name(PATTERN_TYPE, pattern)})",
        f"from {row['host_filter']}" if row.get("host_filter") else "",
    ]
    return " ".join(part for part in wanted if part) or "any ACL"


def _delete_acls_response(x: Bodies) -> str:
    count = sum(len(rows(row, "matching_acls")) for row in rows(x.response, "filter_results"))
    return f"{words.counted(count, 'ACL')} deleted"


# ---------------------------------------------------------------- SCRAM credentials
def _alter_scram_request(x: Bodies) -> str:
    parts = []
    for field, verb in (("upsertions", "set"), ("deletions", "delete")):
        for row in rows(x.request, field):
            mechanism = SCRAM_MECHANISM.name_of(number(row, "mechanism")) or "?"
            parts.append(f"{verb} {text(row, 'name', '?')} {mechanism}")
    return words.phrases(parts)


# ---------------------------------------------------------------- delegation tokens
def _principal(row: Body, prefix: str = "_principal") -> str:
    name = row.get(f"{prefix}_name")
    return f"{text(row, f'{prefix}_type', '?')}:{name}" if name else ""


def _create_token_request(x: Bodies) -> str:
    renewers = [_principal(row) for row in rows(x.request, "renewers")]
    longest = number(x.request, "max_lifetime_ms")
    return join(
        f"for {_principal(x.request, 'owner_principal') or 'the requester'}",
        f"renewers {words.some(renewers)}" if renewers else "",
        f"at most {words.duration(longest)}" if longest >= 0 else "",
    )


def _until(x: Bodies) -> str:
    end = number(x.response, "expiry_timestamp_ms")
    return f"until {words.moment(end)}" if end >= 0 else ""


def _renew_token_request(x: Bodies) -> str:
    period = number(x.request, "renew_period_ms")
    return f"for {words.duration(period)}" if period >= 0 else "for the default period"


def _expire_token_request(x: Bodies) -> str:
    period = number(x.request, "expiry_time_period_ms")
    return f"in {words.duration(period)}" if period >= 0 else "now"


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.SASL_HANDSHAKE: SummaryWriter(
        lambda x: text(x.request, "mechanism"), lambda _: "accepted", _handshake_errors
    ),
    ApiKey.DESCRIBE_ACLS: SummaryWriter(
        lambda x: acl_filter(x.request),
        lambda x: words.counted(sum(len(rows(row, "acls")) for row in rows(x.response, "resources")), "ACL"),
    ),
    ApiKey.CREATE_ACLS: SummaryWriter(
        lambda x: words.phrases([acl(row) for row in rows(x.request, "creations")]),
        lambda x: f"{words.counted(len(rows(x.response, 'results')), 'ACL')} created",
    ),
    ApiKey.DELETE_ACLS: SummaryWriter(
        lambda x: words.phrases([acl_filter(row) for row in rows(x.request, "filters")]),
        _delete_acls_response,
    ),
    ApiKey.SASL_AUTHENTICATE: SummaryWriter(
        lambda x: token(x.request.get("auth_bytes"), "empty token"), _authenticate_response
    ),
    ApiKey.CREATE_DELEGATION_TOKEN: SummaryWriter(
        _create_token_request, lambda x: listed((f"token of {_principal(x.response) or '?'}", _until(x)))
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: SummaryWriter(_renew_token_request, _until),
    ApiKey.EXPIRE_DELEGATION_TOKEN: SummaryWriter(_expire_token_request, _until),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: SummaryWriter(
        lambda x: words.some(_principal(row) for row in rows(x.request, "owners")) or "all owners",
        lambda x: words.counted(len(rows(x.response, "tokens")), "token"),
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: SummaryWriter(
        lambda x: words.some(text(row, "name", "?") for row in rows(x.request, "users")) or "all users",
        lambda x: words.counted(len(rows(x.response, "results")), "user"),
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: SummaryWriter(
        _alter_scram_request, lambda x: f"{words.counted(len(rows(x.response, 'results')), 'user')} changed"
    ),
}
