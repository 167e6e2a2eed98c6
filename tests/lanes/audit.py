"""Known vulnerabilities of the installed packages, from pip-audit or from local advisory files.

    python -m tests.lanes.audit                                 # pip-audit, which asks PyPI
    python -m tests.lanes.audit --advisories all.zip            # PyPI's advisories by OSV.dev, zip file or folder

``.ci/audit`` runs it in an environment that has kproxy with all extras. Advisories are in OSV format
(https://ossf.github.io/osv-schema/): JSON files, folders, or zip files such as
https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip.

As a check, pip-audit first has to find the known vulnerabilities of a release from 2010: an index without advisories,
such as a mirror, answers as if there were none. The exit code is 1 if a package is vulnerable, and 2 if that could not
be determined, because unknown does not mean safe.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile, is_zipfile

import click
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

VULNERABLE, UNKNOWN = 1, 2

_ECOSYSTEM = "PyPI"
_OWN = "kproxy"
_PROBE = "jinja2==2.4.1"
"""A release with advisories since 2014 (CVE-2014-1402, CVE-2016-10745), which every source of advisories must have."""
_ASKING_S = 600


class UnknownError(Exception):
    """The vulnerable packages could not be determined; the text gives the reason."""


class Vulnerable(NamedTuple):
    """An installed package and an advisory about its version.

    :ivar fixed: the first unaffected versions, if the advisory has them
    """

    package: str
    version: str
    advisory: str
    about: str
    fixed: tuple[str, ...]

    def __str__(self) -> str:
        fixed = (
            f"fixed in {', '.join(self.fixed)}" if self.fixed else "not fixed in any version that is known"
        )
        return f"{self.package} {self.version}: {self.advisory}, {fixed}: {self.about}"


def installed() -> dict[str, str]:
    """Return the versions of the packages in this environment, by canonical name, without kproxy."""
    found = {canonicalize_name(each.metadata["Name"]): each.version for each in distributions()}
    found.pop(_OWN, None)
    return dict(found)


# ---------------------------------------------------------------- local advisories
def advisories(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the advisories of files, folders and zip files.

    :raises UnknownError: if a file cannot be read
    """
    for path in paths:
        for name, text in _texts(path):
            try:
                told = json.loads(text)
            except ValueError as error:
                raise UnknownError(f"{name} is no JSON: {error}") from None
            for advisory in told if isinstance(told, list) else [told]:
                if not isinstance(advisory, dict) or not isinstance(advisory.get("id"), str):
                    raise UnknownError(f"{name} is no advisory in the format of OSV: it has no id")
                yield advisory


def _texts(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*.json")):
                yield str(file), file.read_bytes()
        elif is_zipfile(path):
            with ZipFile(path) as archive:
                for name in sorted(each for each in archive.namelist() if each.endswith(".json")):
                    yield f"{path}: {name}", archive.read(name)
        else:
            yield str(path), path.read_bytes()
    except (OSError, BadZipFile) as error:
        raise UnknownError(f"{path} cannot be read: {error}") from None


def vulnerable(packages: Mapping[str, str], known: Iterable[dict[str, Any]]) -> list[Vulnerable]:
    """Return the packages that have advisories.

    :param packages: versions by canonical name
    :raises UnknownError: if there are no advisories at all, or an affected range cannot be compared with a version
    """
    found, count = [], 0
    for advisory in known:
        count += 1
        if "withdrawn" in advisory:
            continue
        for affected in advisory.get("affected", ()):
            package = affected.get("package", {})
            name = canonicalize_name(package.get("name", ""))
            if package.get("ecosystem") == _ECOSYSTEM and name in packages:
                version = packages[name]
                if _is_affected(version, affected, advisory["id"]):
                    about = advisory.get("summary") or advisory.get("details") or "no summary"
                    first = about.strip().splitlines()[0]
                    found.append(Vulnerable(name, version, advisory["id"], first, _fixed(affected)))
    if not count:
        raise UnknownError("there is no advisory there")
    return sorted(set(found))


def _is_affected(version: str, affected: Mapping[str, Any], advisory: str) -> bool:
    """Return whether a version is affected, by the evaluation rules of the OSV schema."""
    try:
        mine = Version(version)
        listed = version in affected.get("versions", ()) or mine in map(
            Version, filter(_is_version, affected.get("versions", ()))
        )
        return listed or any(_in_range(mine, each) for each in affected.get("ranges", ()))
    except InvalidVersion as error:
        raise UnknownError(f"{advisory}: {error}") from None


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:  # lists may contain versions that today's installers reject
        return False
    return True


def _in_range(version: Version, given: Mapping[str, Any]) -> bool:
    """Return whether a version is in a range: at or after the introduction, and before the fix."""
    if given.get("type") not in ("ECOSYSTEM", "SEMVER"):  # commits say nothing about releases
        return False
    events = [
        (Version(at), kind)
        for event in given.get("events", ())
        for kind, at in event.items()
        if kind in ("introduced", "fixed", "last_affected")
    ]
    inside = False
    for at, kind in sorted(events, key=lambda event: (event[0], event[1] != "introduced")):
        if kind == "introduced":
            inside = inside or version >= at
        elif version > at or (kind == "fixed" and version == at):
            inside = False
    return inside


def _fixed(affected: Mapping[str, Any]) -> tuple[str, ...]:
    events = [
        event for each in affected.get("ranges", ()) if each.get("type") != "GIT" for event in each["events"]
    ]
    return tuple(event["fixed"] for event in events if "fixed" in event)


# ---------------------------------------------------------------- pip-audit
def asked(command: Sequence[str]) -> list[Vulnerable]:
    """Return the findings of pip-audit in this environment.

    :param command: the command that starts pip-audit
    :raises UnknownError: if pip-audit cannot run, misses the known vulnerability, or skips a package
    """
    try:
        known = _probed(command)
    except UnknownError as why:
        raise UnknownError(f"no advisory source could be reached: {why}") from None
    if not known:
        raise UnknownError(
            f"no advisory source could be reached: nothing is told of {_PROBE}, which is known to be vulnerable"
        )
    return _found(command, "--local", left_out=(_OWN,))


def _probed(command: Sequence[str]) -> list[Vulnerable]:
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "requirements.txt"
        probe.write_text(f"{_PROBE}\n")
        return _found(command, "--no-deps", "--disable-pip", "-r", str(probe))


def _found(command: Sequence[str], *arguments: str, left_out: Sequence[str] = ()) -> list[Vulnerable]:
    """Run pip-audit and return its findings.

    :param left_out: packages that it may skip
    """
    asking = [*command, "--format", "json", "--progress-spinner", "off", *arguments]
    try:
        done = subprocess.run(asking, capture_output=True, text=True, timeout=_ASKING_S, check=False)
        dependencies = json.loads(done.stdout)["dependencies"]
    except FileNotFoundError:
        raise UnknownError(f"{command[0]} is not installed: pip install pip-audit") from None
    except subprocess.TimeoutExpired:
        raise UnknownError(f"no answer in {_ASKING_S} s") from None
    except (ValueError, KeyError, TypeError):
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UnknownError(f"pip-audit failed: {why}") from None
    unknown = [each for each in dependencies if "skip_reason" in each and each["name"] not in left_out]
    if unknown:
        named = ", ".join(each["name"] for each in unknown)
        raise UnknownError(f"the advisory source knows nothing of {named}: {unknown[0]['skip_reason']}")
    return [
        Vulnerable(
            each["name"],
            each["version"],
            one["id"],
            (one.get("description") or "no description").strip().splitlines()[0],
            tuple(one.get("fix_versions", ())),
        )
        for each in dependencies
        for one in each.get("vulns", ())
    ]


@click.command(help=__doc__)
@click.option(
    "--advisories",
    "paths",
    multiple=True,
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="A JSON file, a folder or a zip file of advisories, in place of asking PyPI.",
)
@click.option(
    "--pip-audit", "program", default="pip-audit", metavar="PROGRAM", help="How to start pip-audit."
)
def main(paths: tuple[Path, ...], program: str) -> None:
    packages = installed()
    try:
        found = vulnerable(packages, advisories(paths)) if paths else asked([program])
    except UnknownError as why:
        click.echo(f"audit: nothing is known: {why}", err=True)
        sys.exit(UNKNOWN)
    for each in found:
        click.echo(str(each))
    source = ", ".join(map(str, paths)) or "the advisory database of PyPI"
    click.echo(f"{len(packages)} packages, by {source}: {len(found) or 'no'} known vulnerabilities")
    sys.exit(VULNERABLE if found else 0)


if __name__ == "__main__":
    main()
