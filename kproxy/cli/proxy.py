"""``kproxy proxy``: the live proxy. What is here reads options and files; :mod:`kproxy.cli.proxying` runs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.brokers import Brokers, HostPort, command_config_option, security_of
from kproxy.cli.common import early_ends
from kproxy.cli.filtering import FILTER
from kproxy.cli.options import diagnose_option, hosts_option, showing_options, surroundings_options
from kproxy.cli.sizes import LEAST_SPOOL, Size
from kproxy.cli.times import NANOSECONDS, Duration
from kproxy.cli.ui import config_option, no_ui_option

if TYPE_CHECKING:
    from kproxy.cli.brokers import Address
    from kproxy.proxy.settings import ClientTls

_ANY = ("0.0.0.0", "::", "")  # noqa: S104  # what is refused without an advertised host

_OF_RUN = (
    *("quiet", "wanted", "hosts", "keep", "before", "after", "keep_dir", "metrics", "metrics_topics"),
    *("verbose", "as_json", "utc", "show_secrets", "payload", "text", "color", "diagnose", "no_ui", "config"),
)
"""Options that the data plane has nothing to do with."""

EPILOG = """\b
Examples:
  kproxy proxy -b kafka1:9092                          clients connect to 127.0.0.1:9092
  kproxy proxy -b kafka1:9092 -Y error -w out.pcapng   errors shown, everything kept
  kproxy proxy -b kafka1:9093 --command-config c.properties --client-tls
                                                       TLS on both sides (docs/proxy-tls.md)
  kproxy proxy -b kafka1:9092 --fault 'api == Produce => delay 200ms, p=0.1'
                                                       faults (docs/faults.md)
  kproxy proxy --mode transparent --listen :9292       redirected connections
  kproxy ctl status                                    from another terminal (docs/ctl.md)
"""


def _file(**kwargs: Any) -> click.Path:
    return click.Path(exists=True, dir_okay=False, **kwargs)


@click.command(short_help="Stand between clients and brokers and show what they say.", epilog=EPILOG)
@click.option(
    "-b", "--bootstrap-server", "bootstrap", type=Brokers(), default=(), help="Brokers to begin with."
)
@click.option(
    "--listen",
    type=HostPort(),
    default="127.0.0.1:9092",
    show_default=True,
    help="Where clients connect first; brokers get ports of their own behind it.",
)
@click.option(
    "--advertise", metavar="HOST", default="", help="Host that clients are told. Default: as --listen."
)
@click.option(
    "--ports",
    metavar="PORTS",
    default="",
    help="Ports of brokers: 9093+ (and the node ID; the default is the port after --listen's), 9093-9120 or any.",
)
@click.option(
    "--sni",
    metavar="PATTERN",
    default="",
    help="One port for all brokers, told apart by TLS server name: b{node_id}.kafka.test.",
)
@click.option(
    "--allow-brokers",
    "allow_brokers",
    metavar="CIDR|NAME",
    multiple=True,
    help="Brokers elsewhere get no connections: 10.0.0.0/8, *.example.com (repeatable). Default: anywhere.",
)
@click.option(
    "--mode",
    type=click.Choice(["rewrite", "transparent", "passthrough"]),
    default="rewrite",
    show_default=True,
    help="rewrite addresses; take connections that a firewall redirects; or forward to one broker as it is.",
)
@click.option(
    "--tproxy", is_flag=True, help="With --mode transparent: connections come by TPROXY, not REDIRECT."
)
@click.option(
    "--keep-client-address", is_flag=True, help="With --tproxy: brokers see the clients' addresses."
)
@command_config_option
@click.option(
    "--client-tls", is_flag=True, help="TLS for clients, with certificates of kproxy's own authority."
)
@click.option(
    "--cert", type=_file(), metavar="FILE", help="TLS for clients with this certificate chain (PEM)."
)
@click.option("--key", type=_file(), metavar="FILE", help="The private key of --cert (PEM).")
@click.option(
    "--client-ca",
    type=_file(),
    metavar="FILE",
    help="Clients must show a certificate that these have signed (PEM).",
)
@click.option(
    "--tls-keylog",
    type=click.Path(dir_okay=False),
    default="",
    metavar="FILE",
    help="Append TLS secrets to FILE.",
)
@click.option(
    "-w",
    "--write",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Append everything that is said to a pcapng file, in plain text.",
)
@click.option(
    "--rotate-size", type=Size(1 << 16), metavar="SIZE", help="With -w: another file after so much."
)
@click.option("--rotate-time", type=Duration(), metavar="TIME", help="With -w: another file after so long.")
@click.option("--rotate-count", type=click.IntRange(1), metavar="N", help="With -w: keep the newest N files.")
@click.option("--no-capture", is_flag=True, help="Record nothing, show nothing: only forward.")
@click.option(
    "--spool",
    type=Size(LEAST_SPOOL),
    metavar="SIZE",
    help="Without -w: disk for what is said. Default: 8GiB.",
)
@click.option("--lossless", is_flag=True, help="Slow forwarding down rather than leave something unrecorded.")
@click.option(
    "--queue",
    type=Size(1 << 20),
    default="64MiB",
    metavar="SIZE",
    help="Memory between forwarding and recording.",
)
@no_ui_option
@config_option
@click.option("--detach", is_flag=True, help="Go on in the background: see kproxy attach and kproxy ctl.")
@click.option("-q", "--quiet", is_flag=True, help="Print no exchanges: only forward and record.")
@click.option("-Y", "--filter", "wanted", type=FILTER, help="Show what fits: 'error and topic ~ orders'.")
@showing_options
@hosts_option
@click.option("--fault", "faults", multiple=True, metavar="RULE", help="'FILTER => ACTION': docs/faults.md.")
@click.option("--hold", default="", type=FILTER, help="Hold what fits until kproxy ctl releases it.")
@click.option(
    "--client-timeout",
    type=Duration(),
    default="30s",
    metavar="TIME",
    help="Clients' request.timeout.ms: what is held goes on before. Default: 30s.",
)
@click.option("--force", is_flag=True, help="Allow fault rules that everything fits.")
@click.option("--no-forward", is_flag=True, help="Record what clients send, and close.")
@click.option("--stub", is_flag=True, help="No broker: answer ApiVersions and Metadata, record the rest.")
@click.option("--keep", type=FILTER, help="Flight recorder: save what surrounds the exchanges that fit.")
@surroundings_options
@diagnose_option
@click.option(
    "--metrics",
    type=HostPort(port_alone=True),
    metavar="[HOST:]PORT",
    help="Prometheus metrics: docs/metrics.md.",
)
@click.option(
    "--metrics-topics",
    type=click.IntRange(0),
    default=100,
    metavar="N",
    help="Topics with metrics of their own.",
)
@click.option(
    "--max-connections", type=click.IntRange(1), default=10_000, metavar="N", help="More are refused."
)
@click.option("--max-frame", type=Size(1 << 10), default="256MiB", metavar="SIZE", help="Largest request.")
@click.option(
    "--idle-timeout",
    type=Duration(),
    default="20m",
    metavar="TIME",
    help="Close silent connections. Default: 20m.",
)
@click.option(
    "--drain",
    type=Duration(),
    default="10s",
    metavar="TIME",
    help="At the end, for requests in flight. Default: 10s.",
)
def proxy(
    bootstrap: tuple[Address, ...],
    listen: Address,
    advertise: str,
    ports: str,
    sni: str,
    allow_brokers: tuple[str, ...],
    mode: Any,
    command_config: str | None,
    client_tls: bool,
    cert: str | None,
    key: str | None,
    client_ca: str | None,
    write: str | None,
    no_capture: bool,
    **options: Any,
) -> None:
    """Stand between Kafka clients and brokers: forward, record, show.

    Clients connect to --listen in place of a broker. The addresses of all brokers in what they are told are those of
    kproxy, so that everything they say comes past it; a port for each broker is opened as it becomes known, and is
    the same after a restart. Everything else stays as it is, to the byte.

    Everything that is seen is recorded as a capture that Wireshark and kproxy read: with -w in a file, else in a
    bounded spool that is removed at the end. On a terminal it is shown in the UI (docs/ui.md), else printed; Ctrl-C
    there, and leaving the UI, lets requests in flight finish, and ends.

    It listens on 127.0.0.1 unless told otherwise: whoever can connect has the rights of kproxy's address at the
    brokers.
    """
    from kproxy.proxy.broker_policy import AllowedError, BrokerPolicy
    from kproxy.proxy.brokers import Ports, PortsError
    from kproxy.proxy.tls.sni import NodeNames, NodeNamesError

    _refuse_contradictions(
        mode, write, sni=sni, allow_brokers=allow_brokers, no_capture=no_capture, **options
    )
    security, named = security_of(command_config)
    served = _served(cert, key, client_ca, authority=client_tls or bool(sni))
    if named and not bootstrap:
        bootstrap = Brokers().convert(named, None, None)
    if mode != "transparent" and not bootstrap and not options["stub"] and not options["no_forward"]:
        raise click.UsageError("say with -b which broker to connect to")
    if mode == "passthrough" and len(bootstrap) > 1:
        raise click.UsageError("--mode passthrough forwards to one broker: give one address with -b")
    if mode == "rewrite" and listen[0] in _ANY and not advertise and not sni:
        raise click.UsageError(
            f"--listen {listen[0] or '0.0.0.0'} takes connections on all addresses, and clients must be told one that "  # noqa: S104
            "they can reach: say which with --advertise HOST"
        )
    try:
        Ports.parse(ports, listen[1])
        if sni:
            NodeNames(sni)
        BrokerPolicy(allow_brokers)
    except (PortsError, NodeNamesError, AllowedError) as error:
        raise click.UsageError(str(error)) from None
    _check_rules(options["faults"], options["hold"], force=options["force"])

    from kproxy.cli.proxying import Proxying
    from kproxy.proxy.settings import Recorded, Settings

    def settings(run_folder: Path) -> Settings:
        return Settings(
            run_folder=str(run_folder),
            bootstrap=bootstrap,
            listen=listen,
            mode=mode,
            advertised=advertise,
            ports=ports,
            sni=sni,
            allowed_brokers=allow_brokers,
            security=security,
            client_tls=served,
            keylog=str(Path(options["tls_keylog"]).absolute()) if options["tls_keylog"] else "",
            tproxy=options["tproxy"],
            keep_client_address=options["keep_client_address"],
            recorded=Recorded(
                on=not no_capture,
                path=str(Path(write).absolute()) if write else "",
                limit=options["spool"] or 0,
                rotate_size=options["rotate_size"] or 0,
                rotate_time=(options["rotate_time"] or 0) / NANOSECONDS,
                rotate_count=options["rotate_count"] or 0,
                queue=options["queue"],
                lossless=options["lossless"],
            ),
            forward=not (options["no_forward"] or options["stub"]),
            stub=options["stub"],
            faults=options["faults"],
            hold=options["hold"],
            client_timeout=options["client_timeout"] / NANOSECONDS,
            force=options["force"],
            most_connections=options["max_connections"],
            most_frame=options["max_frame"],
            detached=options["detach"],
            idle_timeout=options["idle_timeout"] / NANOSECONDS,
            drain=options["drain"] / NANOSECONDS,
        )

    of_run = {name: options[name] for name in _OF_RUN}
    with early_ends():
        sys.exit(Proxying(settings, listen, **of_run).run())


def _refuse_contradictions(
    mode: str,
    write: str | None,
    *,
    sni: str,
    allow_brokers: tuple[str, ...],
    no_capture: bool,
    quiet: bool,
    as_json: bool,
    verbose: bool,
    tproxy: bool,
    keep_client_address: bool,
    no_forward: bool,
    stub: bool,
    keep: str | None,
    metrics: Address | None,
    detach: bool,
    diagnose: bool,
    **others: Any,
) -> None:
    """Refuse what cannot be meant together."""
    rotated = any(others[name] for name in ("rotate_size", "rotate_time", "rotate_count"))
    wrong = {
        "--rotate-* is about the file of -w": rotated and write is None,
        "--spool is for what is not written with -w: give one of them": bool(others["spool"] and write),
        "--no-capture records nothing, -w does: give one of them": no_capture and write is not None,
        "--no-capture has nothing to show or to keep": no_capture
        and bool(as_json or verbose or keep or metrics or diagnose or others["wanted"]),
        "--detach shows and keeps nothing: kproxy attach does": detach
        and bool(as_json or verbose or keep or metrics or diagnose or others["wanted"]),
        "-q shows nothing, --json and -V do: give one of them": quiet and (as_json or verbose),
        "--tproxy is for --mode transparent": tproxy and mode != "transparent",
        "--keep-client-address needs --tproxy": keep_client_address and not tproxy,
        "--sni is for --mode rewrite": bool(sni) and mode != "rewrite",
        "--allow-brokers is for --mode rewrite": bool(allow_brokers) and mode != "rewrite",
        "--stub answers by itself, --no-forward closes: give one of them": stub and no_forward,
        "--keep copies out of the spool; with -w everything is kept": keep is not None and write is not None,
    }
    for sentence, met in wrong.items():
        if met:
            raise click.UsageError(sentence)


def _served(cert: str | None, key: str | None, client_ca: str | None, *, authority: bool) -> ClientTls | None:
    """Return how clients are served; None for plaintext."""
    from kproxy.proxy.settings import ClientTls
    from kproxy.proxy.tls.stores import StoreError, pem_identity

    if (cert is None) != (key is None):
        raise click.UsageError("--cert and --key belong together")
    if cert is None and not authority:
        if client_ca is not None:
            raise click.UsageError(
                "--client-ca is about TLS for clients: give --cert and --key, or --client-tls"
            )
        return None
    authorities = None if client_ca is None else Path(client_ca).read_text()
    if cert is None or key is None:
        return ClientTls(None, "required" if authorities else "none", authorities)
    try:
        identity = pem_identity(f"{Path(key).read_text()}\n{Path(cert).read_text()}")
    except StoreError as error:
        raise click.UsageError(f"--cert {cert}, --key {key}: {error}") from None
    return ClientTls(identity, "required" if authorities else "none", authorities)


def _check_rules(faults: tuple[str, ...], hold: str, *, force: bool) -> None:
    """Find out here what is wrong with rules, where it can be shown."""
    if not faults and not hold:
        return
    from captures.filters import FilterError
    from kproxy.proxy.rules import Inspection

    inspection = Inspection()
    try:
        for rule in faults:
            inspection.rules.add(rule, force=force)
        if hold:
            inspection.holds.set_filter(hold)
    except FilterError as error:
        raise click.UsageError(f"the rule is not understood: {error.render()}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
