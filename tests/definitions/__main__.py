"""Compare the facts with a release of Kafka, and add it to them.

::

    python -m tests.definitions 4.5.0                          what the release says and the facts do not
    python -m tests.definitions 4.5.0 --source ../kafka        the same, from a checkout or a folder of JSON files
    python -m tests.definitions 4.5.0 --write                  add it to the facts
    python -m tests.definitions --rebuild                      make the facts anew from the jars of all releases

The release is fetched from Maven Central unless ``--source`` names a folder. Exits with 0 if nothing differs (or was
written), 1 if something does, 2 if the release cannot be read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tests.definitions import facts
from tests.definitions.sources import Definitions, from_folder, from_jars
from tests.lanes.tools import CannotRun


@click.command()
@click.argument("release", required=False)
@click.option(
    "--source", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A checkout of Kafka."
)
@click.option("--write", is_flag=True, help="Add the release to the facts.")
@click.option("--rebuild", is_flag=True, help="Make the facts anew, from the jars of all releases.")
def main(release: str | None, source: Path | None, write: bool, rebuild: bool) -> None:
    """Compare the facts with a RELEASE of Kafka."""
    if rebuild == bool(release):
        raise click.UsageError("name a release, or give --rebuild")
    try:
        if rebuild:
            _rebuild()
            return
        assert release is not None
        found = from_folder(release, source) if source else from_jars(release)
        code = _compare(found, write=write)
    except (CannotRun, ValueError) as why:
        click.echo(f"{release or 'rebuild'}: {why}", err=True)
        sys.exit(2)
    sys.exit(code)


def _rebuild() -> None:
    made = facts.Facts()
    for release in facts.read().releases:
        found = from_jars(release)
        click.echo(f"{release}: {len(found.messages)} definitions, {len(found.errors)} errors")
        made.add(found)
    made.write()


def _compare(found: Definitions, *, write: bool) -> int:
    known = facts.read()
    for sentence in found.missing:
        click.echo(f"not compared: {sentence}")
    said = known.differences(found)
    for sentence in said:
        click.echo(sentence)
    if write:
        known.add(found)
        known.write()
        click.echo(f"written to {facts.FOLDER}")
        return 0
    click.echo(
        f"{len(found.messages)} definitions, {len(found.errors)} errors of {found.release}: ", nl=False
    )
    click.echo(f"{len(said)} differences" if said else "all as in the facts")
    return 1 if said else 0


if __name__ == "__main__":
    main()
