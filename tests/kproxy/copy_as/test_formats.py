"""The table of formats."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from kproxy.copy_as import FORMATS, CannotCopyError, by_name, formats_of
from tests.kproxy.copy_as.kit import DATA, SCRAM, recorded
from tests.kproxy.tui.kit import REBALANCE


@pytest.mark.slow
def test_a_heartbeat_has_no_command() -> None:
    _, exchanges = recorded(REBALANCE)
    heartbeat = next(each for each in exchanges if each.api == "Heartbeat")
    names = {each.name for each in formats_of([heartbeat])}
    assert names == {each.name for each in FORMATS} - {"kcat", "kafka"}
    metadata = next(each for each in exchanges if each.api == "Metadata")
    assert formats_of([metadata]) == list(FORMATS)
    assert formats_of([heartbeat, metadata]) == list(FORMATS)
    assert formats_of([]) == []


@pytest.mark.slow
def test_several_are_copied_one_after_the_other() -> None:
    context, exchanges = recorded(REBALANCE)
    text = by_name("json").text(exchanges[:3], context)
    assert [json.loads(line)["number"] for line in text.splitlines()] == [1, 2, 3]
    assert by_name("hexdump").text(exchanges[:2], context).count("# request ") == 2
    assert len(by_name("request-hex").text(exchanges[:2], context).splitlines()) == 2
    with pytest.raises(CannotCopyError, match="choose one exchange"):
        by_name("python").text(exchanges[:2], context)


@pytest.mark.slow
def test_commands_leave_out_what_has_none() -> None:
    context, exchanges = recorded(REBALANCE)
    chosen = [next(each for each in exchanges if each.api == api) for api in ("Metadata", "Heartbeat")]
    text = by_name("kafka").text(chosen, context)
    assert text.splitlines()[0].startswith(
        f"# Metadata v{chosen[0].version} of exchange {chosen[0].number}, client ID "
    )
    assert "Heartbeat" not in text
    with pytest.raises(CannotCopyError, match="this does not apply to Heartbeat"):
        by_name("kafka").text(chosen[1:], context)


def test_a_command_of_an_encrypted_connection_says_what_is_missing() -> None:
    context, exchanges = recorded(
        DATA / "24_k430_tls13_franz.pcap", keylog=DATA / "24_k430_tls13_franz.keylog"
    )
    metadata = next(each for each in exchanges if each.api == "Metadata")
    for name in ("kcat", "kafka"):
        assert "# the connection was encrypted: add " in by_name(name).text([metadata], context)


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.pcap")))
def test_no_format_fails_for_any_exchange(name: str) -> None:
    context, exchanges = recorded(DATA / name)
    for exchange in exchanges[:60]:
        for form in formats_of([exchange]):
            with suppress(CannotCopyError):
                text = form.text([exchange], context)
                assert text.endswith("\n")
                assert "\x1b" not in text


def test_the_packets_of_an_exchange_are_named_for_wireshark() -> None:
    context, exchanges = recorded(DATA.parents[2] / "captures" / "samples" / "rebalance.pcap")
    # tshark shows their bytes in these frames: 136 is the request, the others are the response
    text = by_name("wireshark").text([exchanges[30]], context)
    assert text == "frame.number in {136, 141, 143, 145}\n"
    assert exchanges[30].frame == 136


@pytest.mark.slow
def test_masked_secrets_are_in_no_format() -> None:
    open_context, in_clear = recorded(SCRAM, show_secrets=True)
    context, exchanges = recorded(SCRAM)
    secrets = [
        token
        for each in in_clear
        for body in (each.request, each.response)
        if each.api == "SaslAuthenticate" and body is not None and body.value is not None
        for token in [body.value["auth_bytes"]]
        if len(token) > 8
    ]
    assert secrets
    for exchange in exchanges:
        for form in formats_of([exchange]):
            try:
                text = form.text([exchange], context)
            except CannotCopyError:
                continue
            for secret in secrets:
                assert secret.hex() not in text.replace(" ", "")
                assert secret.decode() not in text
    login = next(each for each in in_clear if each.api == "SaslAuthenticate")
    assert secrets[0].hex() in by_name("request-hex").text([login], open_context)


def test_a_request_log_has_no_packets_to_name() -> None:
    context, exchanges = recorded(DATA.parent / "request_log" / "kafka_4.3.0.log.gz")
    with pytest.raises(CannotCopyError, match="a request log has no packets"):
        by_name("wireshark").text(exchanges[:1], context)
