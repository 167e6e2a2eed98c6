"""Every link in the documentation has a target, and every page is linked; the HTML is complete."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docs import build
from docs.tools.markdown import Page, slug
from tests.docs.shell import PAGES, page

pytestmark = pytest.mark.turns(1)


@pytest.mark.slow
def test_links_lead_somewhere_and_pages_are_found() -> None:
    assert list(build.problems()) == []


@pytest.mark.sample(84)
@pytest.mark.parametrize("name", PAGES)
def test_pages_are_named_by_links(name: str) -> None:
    """If a text names a page by its path, it links to it."""
    named = [text for text in page(name).prose() if re.search(r"\bdocs/[\w/-]+\.md\b", text)]
    assert named == []


def test_a_broken_link_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "DOCS", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Program\n")
    (tmp_path / "docs" / "README.md").write_text(
        "# Index\n\n[one](one.md) [gone](gone.md) [two](one.md#two) [readme](../README.md) [web](https://example.com/x)\n"
    )
    (tmp_path / "docs" / "one.md").write_text("# One\n\n![none](none.svg) [self](#one)\n")
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n\n[out](../../secret.md) [code](../setup.py)\n")
    (tmp_path / "setup.py").touch()
    assert list(build.problems()) == [
        "README.md: gone.md: there is no gone.md",
        "README.md: one.md#two: one.md has no such heading",
        "lost.md: ../../secret.md: there is no ../../secret.md",
        "lost.md: ../setup.py: there is no ../setup.py",
        "one.md: none.svg: there is no none.svg",
        "lost.md: no way leads there from README.md",
    ]
    with pytest.raises(build.BrokenLinkError):
        build.build(tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_anchors_are_those_of_github() -> None:
    assert slug("The broker's side") == "the-brokers-side"
    assert slug("Fields: `topic_partition`, and more") == "fields-topic_partition-and-more"
    read = Page("# One\n\n## Same\n\n## Same\n\n## A [link](x.md) and `code`\n")
    assert [heading.anchor for heading in read.headings()] == ["one", "same", "same-1", "a-link-and-code"]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" and value:
                self.ids.add(value)


@pytest.mark.slow
def test_the_site_is_whole(tmp_path: Path) -> None:
    """All pages are built, and the targets of their internal links exist, as resolved by a browser."""
    assert build.build(tmp_path) == len(PAGES)
    parsed: dict[Path, _Links] = {}
    for file in tmp_path.rglob("*.html"):
        parsed[file.resolve()] = reader = _Links()
        reader.feed(file.read_text())
    assert len(parsed) == len(PAGES)
    broken = []
    for file, reader in parsed.items():
        for link in reader.links:
            if build.is_outside(link):
                continue
            path, _, anchor = link.partition("#")
            target = (file.parent / path).resolve() if path else file
            if not target.is_file() or (anchor and anchor not in parsed[target].ids):
                broken.append((file.name, link))
    assert broken == []
    assert 'aria-current="page"' in (tmp_path / "howto" / "wireshark.html").read_text()
