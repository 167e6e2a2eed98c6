"""Differences of clients, and of offered and used versions."""

from __future__ import annotations

import math

from captures.analysis.client_stats import ClientRow
from captures.analysis.comparison.model import Aspect, Difference, SideValue
from captures.analysis.comparison.side import Side
from captures.analysis.comparison.time_slices import MOST_EXAMPLES
from captures.analysis.releases import lines_matching
from captures.analysis.version_matrix import ClientVersions, Matrix, shown
from captures.json_objects import Range
from captures.meaning import words
from dissectors.apis import api_name

_NEW, _GONE, _OTHER_SOFTWARE, _OTHER_PRINCIPAL = 1.0, 1.0, 4.0, 4.0
_SHARE_WEIGHT = 4.0
_OFFER, _USE = 5.0, 1.0
_APIS_SHOWN = 6


def client_differences(good: Side, bad: Side) -> list[Difference]:
    """Return the clients that are on only one side, and those with other software or another principal."""
    sides = [{each.name: each for each in side.clients} for side in (good, bad)]
    totals = [sum(each.exchanges for each in clients.values()) for clients in sides]
    found = []
    for name in sorted(sides[0].keys() | sides[1].keys()):
        one, other = (clients.get(name) for clients in sides)
        if one is None or other is None:
            found.append(_one_sided(one, other, totals, _numbers(good, name), _numbers(bad, name)))
            continue
        for what, before, after, score in (
            ("software", one.software, other.software, _OTHER_SOFTWARE),
            ("principal", one.principals, other.principals, _OTHER_PRINCIPAL),
        ):
            if before and after and set(before) != set(after):
                both = f"{words.listed(before)} in good and {words.listed(after)} in bad"
                sentence = f"client {name}: other {what}, {both}"
                found.append(
                    Difference(
                        aspect=Aspect.CLIENTS,
                        subject=name,
                        what=what,
                        sentence=sentence,
                        good=SideValue(words.listed(before), examples=_numbers(good, name)),
                        bad=SideValue(words.listed(after), examples=_numbers(bad, name)),
                        score=score,
                    )
                )
    return found


def _one_sided(
    good: ClientRow | None,
    bad: ClientRow | None,
    totals: list[int],
    good_examples: tuple[int, ...],
    bad_examples: tuple[int, ...],
) -> Difference:
    row, where, total, weight = (
        (bad, "bad", totals[1], _NEW) if good is None else (good, "good", totals[0], _GONE)
    )
    assert row is not None, "one side has it"
    share = row.exchanges / total if total else 0.0
    software = f" ({words.listed(row.software)})" if row.software else ""
    text = f"{words.counted(row.exchanges, 'exchange')}, {100 * share:.0f} % of all"
    absent = SideValue("not there")
    there = SideValue(text, count=row.exchanges, examples=good_examples or bad_examples)
    return Difference(
        aspect=Aspect.CLIENTS,
        subject=row.name,
        what="presence",
        sentence=f"client {row.name}{software} is in {where} only: {text}",
        good=absent if good is None else there,
        bad=there if good is None else absent,
        score=weight + _SHARE_WEIGHT * share,
    )


def _numbers(side: Side, client: str) -> tuple[int, ...]:
    """Return numbers of the first exchanges of a client."""
    found = {
        number
        for api, name in side.shares.kinds()
        if name == client
        for number in side.shares.examples((api, name))
    }
    return tuple(sorted(found)[:MOST_EXAMPLES])


# ------------------------------------------------------------ versions
def version_differences(good: Side, bad: Side) -> list[Difference]:
    """Return the differences in versions that brokers offer, and that clients on both sides use."""
    one, other = good.matrix(), bad.matrix()
    found = [*_of_offers(one, other)]
    clients = {each.name: each for each in one.clients}
    for client in other.clients:
        before = clients.get(client.name)
        if before is not None:
            difference = _of_use(before, client)
            if difference is not None:
                found.append(difference)
    return found


def _of_offers(good: Matrix, bad: Matrix) -> list[Difference]:
    one, other = _offered(good), _offered(bad)
    if not one or not other:
        return []
    changed = [key for key in sorted(one.keys() | other.keys()) if one.get(key) != other.get(key)]
    if not changed:
        return []
    parts = [f"{api_name(key)} {_ranges(one.get(key))} to {_ranges(other.get(key))}" for key in changed]
    names = [_looks_like(each) for each in (good, bad)]
    like = f" (they look like {names[0]} and {names[1]})" if all(names) and names[0] != names[1] else ""
    return [
        Difference(
            aspect=Aspect.VERSIONS,
            subject="brokers",
            what="offered",
            sentence=f"brokers offer other versions{like}: {words.some(parts, _APIS_SHOWN, ', ')}",
            good=_offer_shown(good, len(one)),
            bad=_offer_shown(bad, len(other)),
            score=_OFFER + math.log2(1 + len(changed)) / 4,
        )
    ]


def _offered(matrix: Matrix) -> dict[int, frozenset[Range]]:
    """Return the version ranges that the brokers offer, by API."""
    found: dict[int, set[Range]] = {}
    for broker in matrix.brokers:
        for key, versions in broker.apis.items():
            found.setdefault(key, set()).add(versions)
    return {key: frozenset(ranges) for key, ranges in found.items()}


def _ranges(found: frozenset[Range] | None) -> str:
    return " or ".join(shown(each) for each in sorted(found)) if found else "none"


def _looks_like(matrix: Matrix) -> str:
    names = [name for broker in matrix.brokers if broker.apis for name in lines_matching(broker.apis)[:1]]
    return words.listed(dict.fromkeys(names))


def _offer_shown(matrix: Matrix, apis: int) -> SideValue:
    numbers = sorted(each.announced_by for each in matrix.brokers if each.announced_by is not None)
    name = _looks_like(matrix)
    text = f"{apis} APIs{f', as {name}' if name else ''}"
    return SideValue(text, count=len(numbers), examples=tuple(numbers[:MOST_EXAMPLES]))


def _of_use(good: ClientVersions, bad: ClientVersions) -> Difference | None:
    """Compare the highest version of each API that a client uses on both sides."""
    one, other = _tops(good), _tops(bad)
    changed = [key for key in sorted(one.keys() & other.keys()) if one[key] != other[key]]
    if not changed:
        return None
    parts = [f"{api_name(key)} v{one[key]} to v{other[key]}" for key in changed]
    texts = [
        words.some((f"{api_name(key)} v{tops[key]}" for key in changed), _APIS_SHOWN, ", ")
        for tops in (one, other)
    ]
    return Difference(
        aspect=Aspect.VERSIONS,
        subject=bad.name,
        what="used",
        sentence=f"client {bad.name} uses other versions: {words.some(parts, _APIS_SHOWN, ', ')}",
        good=SideValue(texts[0], examples=_firsts(good, changed)),
        bad=SideValue(texts[1], examples=_firsts(bad, changed)),
        score=_USE + math.log2(1 + len(changed)) / 4,
    )


def _tops(client: ClientVersions) -> dict[int, int]:
    found: dict[int, int] = {}
    for use in client.uses:
        found[use.key] = max(found.get(use.key, 0), *use.used)
    return found


def _firsts(client: ClientVersions, keys: list[int]) -> tuple[int, ...]:
    return tuple(sorted(use.first for use in client.uses if use.key in keys)[:MOST_EXAMPLES])
