"""The container recipe: docs/install.md explains its commands, and it does not run as root."""

from __future__ import annotations

import json
import re
import tomllib

from tests.packaging.tree import ROOT

RECIPE = (ROOT / "Containerfile").read_text()
GUIDE = (ROOT / "docs" / "install.md").read_text()
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a recipe with their arguments; continued lines are joined, comments are left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [
        (name.upper(), rest.strip())
        for name, _, rest in (line.partition(" ") for line in joined.splitlines())
    ]


def stages() -> list[list[tuple[str, str]]]:
    found: list[list[tuple[str, str]]] = [[]]
    for instruction in instructions(RECIPE):
        if instruction[0] == "FROM":
            found.append([])
        found[-1].append(instruction)
    return found[1:]


def test_instructions_are_read() -> None:
    text = "# comment\nFROM a AS b\nRUN one && \\\n    two\n\n  # more\ncopy . .\n"
    assert instructions(text) == [("FROM", "a AS b"), ("RUN", "one && two"), ("COPY", ". .")]


def test_what_is_run_is_what_the_guide_says() -> None:
    run = [rest for name, rest in instructions(RECIPE) if name == "RUN"]
    (shown,) = re.findall(r"<!-- the commands of Containerfile -->\n\n```sh\n(.*?)```", GUIDE, re.DOTALL)
    assert run == shown.replace("EXTRAS=metrics,parquet\n", "").splitlines()
    assert shown.startswith("EXTRAS=metrics,parquet\n")
    assert ("ARG", "EXTRAS=metrics,parquet") in stages()[0]


def test_the_image_is_made_of_the_environment_alone() -> None:
    build, image = stages()
    assert ("COPY", "--from=build /opt/kproxy /opt/kproxy") in image
    assert [rest for name, rest in image if name == "COPY"] == ["--from=build /opt/kproxy /opt/kproxy"]
    assert build[0][1].removesuffix(" AS build") == image[0][1], (
        "an environment runs on the Python that made it"
    )


def test_it_does_not_run_as_root() -> None:
    image = stages()[-1]
    names = [name for name, _ in image]
    (user,) = [rest for name, rest in image if name == "USER"]
    assert user.isdecimal()
    assert int(user) > 0
    assert any(f"useradd --uid {user} " in rest for name, rest in image if name == "RUN")
    assert names.index("USER") > max(place for place, name in enumerate(names) if name == "RUN")
    assert json.loads(image[-2][1]) == ["kproxy"]


def test_extras_that_are_named_exist() -> None:
    named = re.findall(r"EXTRAS=([\w,]+)", RECIPE + GUIDE)
    assert len(named) > 3
    assert {extra for each in named for extra in each.split(",")} <= set(EXTRAS)


def test_what_is_ignored_is_not_needed_to_build() -> None:
    ignored = {line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"}
    needed = {"kproxy", "captures", "dissectors", "docs", "pyproject.toml", "README.md", "LICENSE"}
    assert not {each.strip("/") for each in ignored} & needed
