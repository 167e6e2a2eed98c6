"""Marks and comments: from packet comments of any tool to exchanges, and back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from captures.exchanges import Capture
from captures.exchanges.notes import Note, parts_of
from tests.captures.export.files import SAMPLE, exported, needs_tshark, opened, tshark
from tests.captures.packets import kit

needs_editcap = pytest.mark.skipif(shutil.which("editcap") is None, reason="editcap is not installed")


def row_of(capture: Capture, number: int) -> int:
    return int(capture.table.order()[number - 1])


def numbers_of(capture: Capture) -> dict[int, Note]:
    """Notes by number of the exchange."""
    notes = capture.notes.all()
    return {
        number: notes[row] for number, row in enumerate(capture.table.order().tolist(), 1) if row in notes
    }


def commented(tmp_path: Path, *comments: str) -> Capture:
    """The sample with comments by editcap, as ``packet:text``."""
    out = tmp_path / "commented.pcapng"
    options = [option for comment in comments for option in ("-a", comment)]
    subprocess.run(["editcap", *options, SAMPLE, out], check=True)
    return opened(out)


# ---------------------------------------------------------------- text
@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("look here", [(Note("look here"), None)]),
        ("two\nlines", [(Note("two\nlines"), None)]),
        ("[marked]", [(Note("", True), None)]),
        ("[marked] look here", [(Note("look here", True), None)]),
        ("[correlation 42] look", [(Note("look"), 42)]),
        ("[marked, correlation -1]", [(Note("", True), -1)]),
        ("[correlation 1] one\nmore\n[marked, correlation 2]", [(Note("one\nmore"), 1), (Note("", True), 2)]),
        ("[todo] ask [marked]", [(Note("[todo] ask [marked]"), None)]),
    ],
)
def test_text_of_comments(text: str, notes: list[tuple[Note, int | None]]) -> None:
    assert parts_of(text) == notes
    assert "\n".join(note.as_text(correlation) for note, correlation in notes) == text


# ---------------------------------------------------------------- reading
@needs_editcap
def test_a_comment_belongs_to_the_exchange_whose_bytes_the_packet_has(tmp_path: Path) -> None:
    capture = opened(SAMPLE)
    row = capture.table.row(row_of(capture, 5))
    again = commented(tmp_path, f"{row['packet']}:the request", "1:a SYN")
    assert numbers_of(again) == {5: Note("the request")}


@pytest.mark.slow
@needs_editcap
@needs_tshark
def test_a_comment_on_the_response_belongs_to_the_same_exchange(tmp_path: Path) -> None:
    capture = opened(SAMPLE)
    row = capture.table.row(row_of(capture, 5))
    response = f"{row['response_first'] / 1e9:.6f}"
    (packet,) = tshark(
        SAMPLE, "-Y", f"frame.time_epoch == {response} && tcp.len > 0", "-T", "fields", "-e", "frame.number"
    )
    assert numbers_of(commented(tmp_path, f"{packet}:[marked] slow")) == {5: Note("slow", True)}


def pipelined(tmp_path: Path) -> Path:
    """One packet with two requests (ApiVersions v0, correlation IDs 1 and 2), and one with both responses."""
    # size, API key, version, correlation ID, client ID "ab"; size, correlation ID, error, no APIs
    requests = [bytes.fromhex(f"0000000c 0012 0000 0000000{number} 0002 6162") for number in (1, 2)]
    responses = [bytes.fromhex(f"0000000a 0000000{number} 0000 00000000") for number in (1, 2)]
    made = kit.Conversation()
    made.handshake()
    made.send(0, b"".join(requests))
    made.send(0, b"".join(responses), ack=32, from_client=False)
    path = tmp_path / "pipelined.pcap"
    path.write_bytes(kit.pcap(list(made.records)))
    return path


def test_where_a_packet_holds_several_exchanges_the_correlation_id_says_which(tmp_path: Path) -> None:
    capture, first = opened(pipelined(tmp_path)), tmp_path / "first.pcapng"
    capture.notes.comment(row_of(capture, 2), "the second")
    capture.notes.mark(row_of(capture, 2))
    exported(capture, first)
    again = opened(first)
    assert numbers_of(again) == {2: Note("the second", True)}
    again.notes.mark(row_of(again, 1))
    exported(again, tmp_path / "second.pcapng")
    assert numbers_of(opened(tmp_path / "second.pcapng")) == {1: Note("", True), 2: Note("the second", True)}


def test_without_it_the_comment_belongs_to_all_of_them(tmp_path: Path) -> None:
    if shutil.which("editcap") is None:
        pytest.skip("editcap is not installed")
    out = tmp_path / "commented.pcapng"
    subprocess.run(["editcap", "-a", "4:both", pipelined(tmp_path), out], check=True)
    assert numbers_of(opened(out)) == {1: Note("both"), 2: Note("both")}


@needs_editcap
def test_comments_in_decrypted_traffic(tmp_path: Path) -> None:
    from captures.exchanges import open_capture
    from captures.packets.tls import KeyLog
    from tests.captures.export.files import DATA

    path, out = DATA / "24_k430_tls13_franz.pcap", tmp_path / "tls.pcapng"
    plain = opened(path)
    packet = plain.table.row(row_of(plain, 3))["packet"]
    subprocess.run(["editcap", "-a", f"{packet}:encrypted", path, out], check=True)
    capture = open_capture(str(out), keylog=KeyLog(str(path.with_suffix(".keylog"))))
    capture.read()
    assert 3 in numbers_of(capture)


@needs_editcap
def test_all_notes_are_those_of_each_row(tmp_path: Path) -> None:
    capture = commented(tmp_path, *(f"{number}:packet {number}" for number in range(1, 1500, 7)))
    one_by_one = {row: note for row in range(len(capture.table)) if (note := capture.notes.of(row))}
    assert capture.notes.all() == one_by_one
    assert len(one_by_one) > 50
    noted = {int(line.split()[1]) for note in one_by_one.values() for line in note.comment.splitlines()}
    assert noted < set(range(1, 1500, 7))


# ---------------------------------------------------------------- writing
def test_what_is_noted_goes_before_what_was_read(tmp_path: Path) -> None:
    capture, first = opened(SAMPLE), tmp_path / "first.pcapng"
    row = row_of(capture, 7)
    capture.notes.comment(row, "one")
    capture.notes.mark(row)
    assert capture.notes.of(row) == Note("one", True)
    exported(capture, first)
    again = opened(first)
    again.notes.comment(row, "")
    assert again.notes.of(row) == Note("", True)
    again.notes.mark(row, marked=False)
    assert not again.notes.of(row)
    assert again.notes.all() == {}
    exported(again, tmp_path / "second.pcapng")
    assert opened(tmp_path / "second.pcapng").notes.all() == {}


@pytest.mark.slow
@needs_tshark
def test_wireshark_shows_notes_as_packet_comments(tmp_path: Path) -> None:
    capture, out = opened(SAMPLE), tmp_path / "out.pcapng"
    row = row_of(capture, 7)
    capture.notes.comment(row, "ärger")
    exported(capture, out)
    assert tshark(out, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment") == ["ärger"]
