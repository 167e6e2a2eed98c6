"""Control commands over HTTP, with a data plane that does not forward."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest

from kproxy.proxy import control_http
from kproxy.proxy.control import CommandError, by_name
from kproxy.proxy.control_http import ControlHttp
from kproxy.proxy.tls.authority import CERTIFICATE, Authority
from tests.kproxy.proxy.fake_plane import FakePlane, serving
from tests.waiting import PATIENCE, wait_until


def status() -> dict[str, Any]:
    """Return the state."""
    return {"forwarding": True}


def held(number: int, side: str = "request") -> dict[str, Any]:
    """Return a held message."""
    if number > 9:
        raise LookupError(f"no message {number} is held")
    return {"number": number, "side": side}


def release(number: int | Literal["all"]) -> dict[str, Any]:
    """Release a held message."""
    return {"released": number}


def drain(seconds: float | None = None) -> dict[str, Any]:
    """End the proxy."""
    return {"seconds": seconds}


def broken() -> None:
    """Fail."""
    raise KeyError("bug")


class Control:
    """A client of a control server."""

    def __init__(self, port: int, token: Path) -> None:
        self.port = port
        self.token = token

    def ask(
        self, method: str, path: str, body: str = "", *, token: str | None = None, **headers: str
    ) -> tuple[int, Any]:
        """Send a request; return status and JSON."""
        token = self.token.read_text().strip() if token is None else token
        with self.connect() as connection:
            connection.request(method, path, body, {"Authorization": f"Bearer {token}", **headers})
            answer = connection.getresponse()
            assert answer.getheader("Content-Type") == "application/json"
            return answer.status, json.loads(answer.read())

    def connect(self) -> closing[http.client.HTTPConnection]:
        """Return a new connection."""
        return closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE))


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[FakePlane]:
    commands = by_name(status, held, release, drain, broken)
    with serving(FakePlane(tmp_path / "control.sock", commands, frozenset({"release", "drain"}))) as made:
        yield made


@pytest.fixture
def control(plane: FakePlane, tmp_path: Path) -> Iterator[Control]:
    with ControlHttp(("127.0.0.1", 0), plane.path, tmp_path / "token") as server:
        yield Control(server.port, tmp_path / "token")


def test_the_token_is_in_a_private_file(control: Control) -> None:
    assert stat.S_IMODE(control.token.stat().st_mode) == 0o600
    assert len(control.token.read_text().strip()) >= 32


def test_a_token_that_exists_is_used(plane: FakePlane, tmp_path: Path) -> None:
    (tmp_path / "own").write_text("secret\n")
    with ControlHttp(("127.0.0.1", 0), plane.path, tmp_path / "own") as server:
        assert Control(server.port, tmp_path / "own").ask("GET", "/status", token="secret")[0] == 200


@pytest.mark.parametrize("token", ["", "wrong", "\xe9"])
@pytest.mark.parametrize("path", ["/status", "/openapi.json", "/nonsense"])
def test_nothing_but_health_is_told_without_the_token(control: Control, path: str, token: str) -> None:
    code, answer = control.ask("GET", path, token=token)
    assert (code, list(answer)) == (401, ["error"])
    assert control.ask("GET", "/health", token=token) == (200, {"forwarding": True})


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "answer"),
    [
        ("GET", "/status", "", 200, {"forwarding": True}),
        ("GET", "/held?number=3&side=response", "", 200, {"number": 3, "side": "response"}),
        ("POST", "/release", '{"number": "all"}', 200, {"released": "all"}),
        ("POST", "/drain", "", 200, {"seconds": None}),
        ("GET", "/held?number=10", "", 400, "no message 10 is held"),
        ("GET", "/held?number=x", "", 400, "Expected `int`, got `str`"),
        ("POST", "/release", '{"which": 1}', 400, "unknown field `which`"),
        ("POST", "/release", "[1]", 400, "the body is not a JSON object"),
        ("POST", "/release", "\xff", 400, "the body is not a JSON object"),
        ("POST", "/release", '{"do": "drain"}', 400, "'do' is not a parameter"),
        ("GET", "/held?id=1", "", 400, "'id' is not a parameter"),
        ("GET", "/held?self=1", "", 400, "unknown field `self`"),
        ("GET", f"/held?number={'[' * 5000}", "", 400, "Expected `int`, got `str`"),
        ("POST", "/release", f'{{"number": {"[" * 5000}', 400, "the body is not a JSON object"),
        ("GET", "http://host/held?number=3", "", 200, {"number": 3, "side": "request"}),
        ("POST", "/health", "", 404, "there is no command 'health'"),
        ("GET", "/nonsense", "", 404, "there is no command 'nonsense'"),
        ("GET", "/release", "", 405, "release needs POST"),
        ("POST", "/status", "", 405, "status needs GET"),
        ("GET", "/broken", "", 400, "failed: KeyError"),
    ],
)
def test_commands(control: Control, method: str, path: str, body: str, code: int, answer: Any) -> None:
    got, value = control.ask(method, path, body)
    assert got == code
    if code == 200:
        assert value == answer
    else:
        assert answer in value["error"]


@pytest.mark.parametrize(
    "headers",
    [{"Content-Length": str(1 << 40)}, {"Content-Length": "9" * 5000}, {"Transfer-Encoding": "chunked"}],
)
def test_a_body_of_unknown_or_great_length_is_not_read(control: Control, headers: dict[str, str]) -> None:
    assert control.ask("POST", "/drain", **headers)[0] == 413


def test_a_long_body_is_read_only_with_the_token(control: Control) -> None:
    headers = {"Content-Length": str(1 << 17)}
    assert control.ask("POST", "/drain", token="wrong", **headers)[0] == 413
    assert control.ask("POST", "/drain", "{}" + " " * (1 << 17))[0] == 200


def test_a_body_that_ends_early_is_not_taken_for_none(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kproxy.proxy.control_http._Handler.timeout", 0.2)
    token = control.token.read_text().strip()
    request = f"POST /drain HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Length: 30\r\n\r\n"
    for leaves in (True, False):
        with socket.create_connection(("127.0.0.1", control.port), timeout=PATIENCE) as client:
            client.sendall(request.encode())
            if leaves:
                client.shutdown(socket.SHUT_WR)
            with client.makefile("rb") as answer:
                assert answer.read().endswith(b'{"error":"the body has fewer than 30 bytes"}\n')


def test_a_url_that_is_none(control: Control) -> None:
    with socket.create_connection(("127.0.0.1", control.port), timeout=PATIENCE) as client:
        client.sendall(b"GET http://[ HTTP/1.0\r\n\r\n")
        with client.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.1 400 Bad Request\r\n"


def test_a_token_may_have_any_bytes(plane: FakePlane, tmp_path: Path) -> None:
    (tmp_path / "own").write_bytes(b"\xff\xc3\xa9\n")
    with ControlHttp(("127.0.0.1", 0), plane.path, tmp_path / "own") as server:
        assert Control(server.port, tmp_path / "own").ask("GET", "/status", token="\xff\xc3\xa9")[0] == 200


def test_a_connection_is_used_for_several_requests(control: Control) -> None:
    with control.connect() as connection:
        for _ in range(2):
            connection.request("GET", "/health")
            assert connection.getresponse().read() == b'{"forwarding":true}\n'


def test_a_proxy_that_does_not_answer(tmp_path: Path) -> None:
    with ControlHttp(("127.0.0.1", 0), tmp_path / "gone.sock", tmp_path / "token") as server:
        for path in ("/health", "/status"):
            code, answer = Control(server.port, tmp_path / "token").ask("GET", path)
            assert code == 503
            assert "does not answer" in answer["error"]


def test_clients_that_leave_early_print_nothing(control: Control, capfd: pytest.CaptureFixture[str]) -> None:
    for sent in (b"", b"GET", b"POST /drain HTTP/1.1\r\nContent-Length: 9\r\n\r\n", b"\x16\x03\x01\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", control.port)) as client:
            client.sendall(sent)
    assert control.ask("GET", "/health")[0] == 200
    assert capfd.readouterr().err == ""


def test_the_description_follows_from_the_commands(control: Control) -> None:
    code, described = control.ask("GET", "/openapi.json")
    assert code == 200
    assert described["openapi"] == "3.1.0"
    assert list(described["paths"]) == [
        "/health",
        "/events",
        "/status",
        "/held",
        "/release",
        "/drain",
        "/broken",
    ]
    operations = [each for path in described["paths"].values() for each in path.values()]
    assert all(each["summary"] and each["responses"].keys() == {"200", "default"} for each in operations)
    assert len({each["operationId"] for each in operations}) == len(operations)
    get = described["paths"]["/held"]["get"]
    assert get["summary"] == "Return a held message."
    assert [(each["name"], each["required"], each["schema"]["type"]) for each in get["parameters"]] == [
        ("number", True, "integer"),
        ("side", False, "string"),
    ]
    release, drain = (described["paths"][path]["post"]["requestBody"] for path in ("/release", "/drain"))
    assert (release["required"], drain["required"]) == (True, False)
    schema = release["content"]["application/json"]["schema"]
    assert schema["required"] == ["number"]
    assert schema["additionalProperties"] is False


def test_events_are_streamed(control: Control, plane: FakePlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_http, "_SILENCE", 0.1)
    with control.connect() as connection:
        connection.request(
            "GET", "/events", headers={"Authorization": f"Bearer {control.token.read_text().strip()}"}
        )
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Content-Type")) == (200, "application/x-ndjson")
        assert answer.readline() == b"\n"
        plane.do(lambda: plane.server.publish({"event": "note", "text": "hello"}))
        line = next(line for line in answer if line.strip())
        assert json.loads(line) == {"event": "note", "text": "hello"}


def test_streams_of_events_leave_room_for_commands(
    plane: FakePlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_http, "MOST_STREAMS", 1)
    monkeypatch.setattr(control_http, "_SILENCE", 0.1)
    with ControlHttp(("127.0.0.1", 0), plane.path, tmp_path / "token") as server:
        control = Control(server.port, tmp_path / "token")
        with control.connect() as stream:
            stream.request(
                "GET", "/events", headers={"Authorization": f"Bearer {control.token.read_text().strip()}"}
            )
            assert stream.getresponse().readline() == b"\n"
            assert control.ask("GET", "/events") == (429, {"error": "1 streams of events are open already"})
            assert control.ask("GET", "/status")[0] == 200
        with control.connect() as stream:

            def answered() -> bool:
                stream.close()
                stream.request(
                    "GET", "/events", headers={"Authorization": f"Bearer {control.token.read_text().strip()}"}
                )
                return stream.getresponse().status == 200

            wait_until(answered)  # once the disconnection of the first is noticed


def test_events_need_the_token(control: Control) -> None:
    assert control.ask("GET", "/events", token="wrong")[0] == 401


def test_tls(plane: FakePlane, tmp_path: Path) -> None:
    authority = Authority.open(tmp_path / "authority")
    identity = authority.identity("localhost")
    (tmp_path / "cert.pem").write_text(identity.key + identity.chain)
    context = ssl.create_default_context(cafile=str(authority.folder / CERTIFICATE))
    with (
        ControlHttp(("127.0.0.1", 0), plane.path, tmp_path / "token", tmp_path / "cert.pem") as server,
        socket.create_connection(("127.0.0.1", server.port), PATIENCE) as slow,
        closing(
            http.client.HTTPSConnection("localhost", server.port, timeout=PATIENCE, context=context)
        ) as client,
    ):
        slow.sendall(b"\x16")  # an incomplete handshake blocks nobody
        client.request("GET", "/health")
        assert client.getresponse().status == 200


@pytest.mark.parametrize("content", [None, "nothing"])
def test_a_certificate_that_cannot_be_used(plane: FakePlane, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "cert.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(OSError, match="No such file" if content is None else "no certificate"):
        ControlHttp(("127.0.0.1", 0), plane.path, tmp_path / "token", path)


def test_an_address_in_use(plane: FakePlane, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        ControlHttp(taken.getsockname(), plane.path, tmp_path / "token")


def test_missing_parameters_are_refused() -> None:
    with pytest.raises(CommandError, match="missing required field"):
        by_name(held)["held"]({})
