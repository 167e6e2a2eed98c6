"""Files of names, recognised by their content."""

from pathlib import Path

import pytest

from captures.names import NamesError, read_names

PODS = """\
NAME      READY   STATUS    RESTARTS   AGE   IP           NODE     NOMINATED NODE   READINESS GATES
kafka-0   1/1     Running   0          5d    10.244.0.5   node-1   <none>           <none>
"""


def written(folder: Path, text: str | bytes, name: str = "names") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_content_tells_the_format(tmp_path: Path) -> None:
    hosts = written(tmp_path, "10.0.0.1 broker-1\n", "pods.txt")
    pods = written(tmp_path, "\n" + PODS, "hosts")
    names = read_names([hosts, pods])
    assert names.shown("10.0.0.1:9092") == "broker-1:9092"
    assert names.shown("10.244.0.5:9092") == "kafka-0:9092"


def test_of_several_files_the_first_is_shown(tmp_path: Path) -> None:
    one, other = written(tmp_path, "10.0.0.1 one\n", "one"), written(tmp_path, "10.0.0.1 other\n", "other")
    assert read_names([one, other]).of("10.0.0.1:1") == ("one", "other")


def test_an_endpoint_may_be_named(tmp_path: Path) -> None:
    names = read_names([written(tmp_path, "127.0.0.1:9092 broker-1\n127.0.0.1:9093 broker-2\n")])
    assert [names.shown(f"127.0.0.1:{port}") for port in (9092, 9093, 9094)] == [
        "broker-1:9092",
        "broker-2:9093",
        "127.0.0.1:9094",
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks_do_not_matter(tmp_path: Path, encoding: str) -> None:
    path = written(tmp_path, PODS.replace("\n", "\r\n").encode(encoding))
    assert read_names([path]).shown("10.244.0.5:1") == "kafka-0:1"


def test_nothing_named_is_no_mistake(tmp_path: Path) -> None:
    assert not read_names([written(tmp_path, "# later\n"), written(tmp_path, "", "empty")])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"10.0.0.1 one\nbroker 10.0.0.2\n", "names, line 2: 'broker' is no IP address"),
        (
            PODS.replace("10.244.0.5", "10.244.0  ").encode(),
            "names, line 2: '10.244.0' in column IP is no IP",
        ),
        (b"10.0.0.1 one\n\xd4\xc3\xb2\xa1\n", "names, line 2: this is not text: byte 0xd4"),
    ],
)
def test_mistakes_name_file_and_line(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(NamesError) as caught:
        read_names([written(tmp_path, content)])
    assert said in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_names([str(tmp_path / "missing")])
