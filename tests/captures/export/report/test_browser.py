"""A real browser opens the page without complaints, its pictures have a size, and its one script runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC
from pathlib import Path

import pytest

from captures.export.report import report
from tests.captures.export.report import samples

BROWSER = next(
    (name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")


def browse(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    return subprocess.run(
        [
            BROWSER,
            *(
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--enable-logging=stderr",
                "--window-size=1280,4000",
            ),
            f"--user-data-dir={page.parent / 'profile'}",
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def console(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(report(samples.whole(tmp_path / "tables"), zone=UTC))
    return path


@pytest.mark.slow
def test_a_browser_opens_it_without_complaint(page: Path) -> None:
    done = browse(page, "--dump-dom")
    assert console(done) == []
    assert done.stdout.count("<svg") == 8
    assert (
        done.stdout.count('class="copy"')
        == len(re.findall(r'<button type="button" class="copy">', done.stdout))
        > 20
    )


@pytest.mark.slow
def test_a_script_from_the_wire_would_not_run(page: Path) -> None:
    """The test above can fail: the page's policy blocks foreign scripts, and the browser reports that."""
    page.write_text(page.read_text().replace("</body>", "<script>document.title = 'taken'</script></body>"))
    done = browse(page, "--dump-dom")
    assert any("Content Security Policy" in line for line in console(done))
    assert "<title>taken</title>" not in done.stdout


@pytest.mark.slow
def test_it_can_be_printed(page: Path) -> None:
    printed = page.with_suffix(".pdf")
    done = browse(page, f"--print-to-pdf={printed}")
    assert console(done) == []
    assert printed.read_bytes().startswith(b"%PDF")
