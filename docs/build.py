"""Builds the documentation as HTML: ``python -m docs.build [FOLDER]``, by default in ``docs/_site``.

Pages need neither network nor scripts, and open from disk. The index (``docs/README.md``) is the navigation on each
page. A broken link fails the build.
"""

from __future__ import annotations

import html
import posixpath
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template
from urllib.parse import unquote

from docs.tools.markdown import Page

DOCS = Path(__file__).parent
SITE = DOCS / "_site"
INDEX = "README.md"
OVERVIEW = {
    f"../{name}.md": f"{title}.html"
    for name, title in (
        ("README", "overview"),
        ("ARCHITECTURE", "architecture"),
        ("CONTRIBUTING", "contributing"),
        ("GLOSSARY", "glossary"),
    )
}
"""The pages at the top of the repository, as seen from ``docs``, and their HTML."""

_TEMPLATE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="stylesheet" href="${up}style.css">
</head>
<body>
<nav>
<p><a href="${up}index.html">kproxy</a></p>
$navigation
</nav>
<main>
$body
</main>
</body>
</html>
"""
)

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --code: #8882; --link: light-dark(#0b5cad, #7ab7ff); }
* { box-sizing: border-box; }
body { margin: 0; display: grid; grid-template-columns: 19rem minmax(0, 1fr); font: 16px/1.55 system-ui, sans-serif; }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1rem; border-right: 1px solid var(--line);
  font-size: .88rem; }
nav > p:first-child a { font-weight: 700; font-size: 1.15rem; }
nav p { margin: .6rem 0 .2rem; }
nav ul { list-style: none; margin: 0 0 .7rem; padding: 0; }
nav li { margin: .15rem 0; }
nav h2 { font-size: .95rem; margin: 1.1rem 0 .3rem; }
nav a[aria-current] { font-weight: 700; color: inherit; }
main { padding: 1rem 2.5rem 4rem; max-width: 72rem; min-width: 0; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
pre, code { font: .88em/1.45 ui-monospace, monospace; background: var(--code); border-radius: 4px; }
code { padding: .1em .3em; overflow-wrap: break-word; }
pre { padding: .8rem 1rem; overflow-x: auto; }
pre code { padding: 0; background: none; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0; }
td:first-child code { white-space: nowrap; }
th, td { border: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; }
img { max-width: 100%; height: auto; }
h1, h2, h3, h4 { line-height: 1.25; margin: 1.8em 0 .6em; }
h1 { margin-top: .4em; }
:target { scroll-margin-top: 1rem; }
@media (max-width: 60rem) {
  body { display: block; }
  nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line); }
  main { padding: 1rem; }
}
@media print { body { display: block; } nav { display: none; } }
"""


class BrokenLinkError(Exception):
    """A page has a broken link; the message names both."""


def sources() -> list[str]:
    """Return the pages by path relative to ``docs``, those at the top of the repository first."""
    found = (page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if SITE not in page.parents)
    return [*(page for page in OVERVIEW if (DOCS / page).is_file()), *sorted(found)]


def is_outside(link: str) -> bool:
    """Return whether a link is external: to another host, or a mail address."""
    return "://" in link or link.startswith("mailto:")


def followed(page: str, link: str) -> tuple[str, str]:
    """Return the target of a link: a path relative to ``docs``, and an anchor, which may be empty."""
    path, _, anchor = unquote(link).partition("#")
    if not path:
        return page, anchor
    whole = posixpath.normpath(posixpath.join("/repository/docs", posixpath.dirname(page), path))
    return posixpath.relpath(whole, "/repository/docs"), anchor


def problems() -> Iterator[str]:
    """Yield the broken links of all pages, and the pages that are missing from the index."""
    pages = {page: Page((DOCS / page).read_text()) for page in sources()}
    anchors = {page: {heading.anchor for heading in read.headings()} for page, read in pages.items()}
    leads: dict[str, set[str]] = {page: set() for page in pages}
    for page, read in pages.items():
        for link in read.links():
            if is_outside(link):
                continue
            target, anchor = followed(page, link)
            if target in pages:
                leads[page].add(target)
                if anchor and anchor not in anchors[target]:
                    yield f"{page}: {link}: {target} has no such heading"
            elif not (DOCS / target).is_file() or target.startswith("../"):
                yield f"{page}: {link}: there is no {target}"
    yield from (f"{page}: no way leads there from {INDEX}" for page in sorted(set(pages) - _reached(leads)))


def _reached(leads: dict[str, set[str]]) -> set[str]:
    reached, new = {INDEX}, {INDEX}
    while new:
        new = set().union(*(leads[page] for page in new)) - reached
        reached |= new
    return reached


def built(page: str) -> str:
    """Return the path of a page's HTML relative to the site's folder."""
    if page in OVERVIEW:
        return OVERVIEW[page]
    folder, name = posixpath.split(page)
    return posixpath.join(folder, "index.html" if name == INDEX else f"{name.removesuffix('.md')}.html")


def build(site: Path = SITE) -> int:
    """Write the site, and return the number of its pages. The previous content of the folder is deleted.

    :raises BrokenLinkError: if a link is broken, before anything is written
    """
    wrong = list(problems())
    if wrong:
        raise BrokenLinkError("\n".join(wrong))
    if site.exists():
        shutil.rmtree(site)
    pages = sources()
    for page in pages:
        read = Page((DOCS / page).read_text())
        for link in filter(_is_file, read.links()):
            _copy(followed(page, link)[0], site)
        target = site / built(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_page(page, read), "utf-8")
    (site / "style.css").write_text(_STYLE)
    return len(pages)


def _is_file(link: str) -> bool:
    """Return whether a link leads to a file that is not a page, such as a picture or an example."""
    path = link.partition("#")[0]
    return bool(path) and not is_outside(link) and not path.endswith(".md")


def _copy(file: str, site: Path) -> None:
    (site / file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(DOCS / file, site / file)


def _page(page: str, read: Page) -> str:
    """Return the HTML of a page."""
    return _TEMPLATE.substitute(
        title=html.escape(read.title),
        up="../" * built(page).count("/"),
        navigation=_navigation(page),
        body=read.html(lambda link: _moved(page, link, page)),
    )


def _navigation(page: str) -> str:
    """Return the lists of the index with links relative to a page."""
    text = (DOCS / INDEX).read_text()
    lines = [
        line for line in text.splitlines() if line.startswith(("- ", "## ")) or line.endswith(":") or not line
    ]
    made = Page("\n".join(lines)).html(lambda link: _moved(INDEX, link, page))
    here = posixpath.basename(built(page))
    return made.replace(f'href="{here}"', f'href="{here}" aria-current="page"')


def _moved(page: str, link: str, seen_from: str) -> str:
    """Return a link of a page as it appears in the site.

    :param seen_from: the page whose HTML contains the link
    """
    if is_outside(link):
        return link
    target, anchor = followed(page, link)
    moved = built(target) if target.endswith(".md") else target
    there = posixpath.relpath(f"/{moved}", f"/{posixpath.dirname(built(seen_from))}")
    return f"{there}#{anchor}" if anchor else there


def main(arguments: list[str]) -> None:
    """Build the site; exit with 1 if a link is broken."""
    site = Path(arguments[0]) if arguments else SITE
    try:
        pages = build(site)
    except BrokenLinkError as error:
        sys.exit(f"links that lead nowhere:\n{error}")
    sys.stdout.write(f"{pages} pages in {site}: {site / 'index.html'}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
