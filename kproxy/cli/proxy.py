"""``kproxy proxy``: the live proxy. This module reads options and files; :mod:`kproxy.cli.proxy_run` runs the proxy."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dissectors.units import SECOND
from kproxy.addresses import MOST_PORT, Address
from kproxy.cli.command import Count, ExistingFile, FileName, Number, command, option, options
from kproxy.cli.common import refuse_contradictions, reported_endings, usage_errors
from kproxy.cli.config import cluster_options, current
from kproxy.cli.options import (
    BROKERS,
    FILTER,
    HOST_PORT,
    CommandConfigOption,
    FilterString,
    ListenAddress,
    LiveOptions,
    NamedBrokers,
    OtlpOption,
    RecorderOptions,
    SpoolSize,
    Time,
    WebOption,
    security_of,
    size_type,
)
from kproxy.configuration import ConfigurationError
from kproxy.proxy.modes import MODES

if TYPE_CHECKING:
    from kproxy.proxy.settings import ClientTls, ClusterSettings, Settings


EPILOG = """\b
Examples:
  kproxy proxy -b kafka1:9092                          clients connect to 127.0.0.1:9092
  kproxy proxy -b kafka1:9092 -Y error -w out.pcapng   show errors, record everything
  kproxy proxy -b kafka1:9093 --command-config c.properties --client-tls
                                                       TLS on both sides (docs/proxy-tls.md)
  kproxy proxy -b kafka1:9094 --command-config c.properties --authenticate
                                                       clients without SASL and TLS
  kproxy proxy -b kafka1:9092 --fault 'api == Produce => delay 200ms, p=0.1'
                                                       faults (docs/faults.md)
  kproxy proxy -b east=kafka1:9092 -b west=kafka2:9092
                                                       two clusters (docs/proxy.md)
  kproxy proxy --mode transparent --listen :9292       redirected connections
  kproxy ctl status                                    from another terminal (docs/ctl.md)
"""


@options
class ForwardingOptions(CommandConfigOption):
    """Which connections are forwarded, and where to."""

    title = "Forwarding"
    bootstrap: tuple[NamedBrokers, ...] = option(
        "-b",
        "--bootstrap-server",
        of_cluster=True,
        help="Bootstrap brokers. For several clusters, name each: -b east=kafka1:9092 -b west=kafka2:9092.",
    )
    authenticate: bool = option(
        "--authenticate",
        of_cluster=True,
        help="Authenticate clients' connections at brokers with the SASL credentials of --command-config.",
    )
    listen: Address = option(
        "--listen",
        of_cluster=True,
        multiple=False,
        type=HOST_PORT,
        default="127.0.0.1:9092",
        show_default=True,
        help="Address that clients connect to first; each broker gets a port after it. Further clusters: 100 ports on.",
    )
    advertise: str = option(
        "--advertise",
        of_cluster=True,
        metavar="HOST",
        default="",
        help="Host name to give to clients. Default: as --listen.",
    )
    ports: str = option(
        "--ports",
        of_cluster=True,
        metavar="PORTS",
        default="",
        help="Ports for brokers: 9093+ (plus the node ID; default: from the port after --listen's), 9093-9120 or any.",
    )
    sni: str = option(
        "--sni",
        of_cluster=True,
        metavar="PATTERN",
        default="",
        help="One port for all brokers, told apart by TLS server name: b{node_id}.kafka.test.",
    )
    allow_brokers: tuple[str, ...] = option(
        "--allow-brokers",
        of_cluster=True,
        metavar="CIDR|NAME",
        help="Connect only to brokers in these networks or with these names: 10.0.0.0/8, *.example.com (repeatable). "
        "Default: any.",
    )
    mapped: tuple[str, ...] = option(
        "--map",
        of_cluster=True,
        metavar="BROKER=HOST:PORT",
        help="Connect to a broker at this address instead of the one it advertises: kafka-1:9092=127.0.0.1:29092, "
        "'broker 2=127.0.0.1:29093' (repeatable).",
    )
    mode: str = option(
        "--mode",
        type=click.Choice(list(MODES)),
        default=next(iter(MODES)),
        show_default=True,
        help="; ".join(f"{mode.name}: {mode.summary}" for mode in MODES.values()) + ".",
    )
    tproxy: bool = option(
        "--tproxy", help="With --mode transparent: connections arrive by TPROXY, not REDIRECT."
    )
    keep_client_address: bool = option(
        "--keep-client-address", help="With --tproxy: brokers see the clients' addresses."
    )
    no_forward: bool = option(
        "--no-forward", help="Record what clients send first, and close the connection."
    )
    stub: bool = option("--stub", help="Use no broker: answer ApiVersions and Metadata, record the rest.")
    max_connections: Count = option(
        "--max-connections", default=10_000, help="Refuse connections beyond this number."
    )
    max_frame: int = option("--max-frame", type=size_type(1 << 10), default="256MiB", help="Largest request.")
    idle_timeout: Time = option(
        "--idle-timeout", default="20m", help="Close idle connections after this time. Default: 20m."
    )
    drain: Time = option(
        "--drain", default="10s", help="Wait so long for requests in flight at the end. Default: 10s."
    )
    detach: bool = option(
        "--detach", help="Run in the background, also with --metrics, --otlp, --keep and --diagnose."
    )


@options
class ClientTlsOptions:
    """TLS towards clients."""

    title = "TLS for clients"
    client_tls: bool = option(
        "--client-tls",
        of_cluster=True,
        help="Use TLS for clients, with certificates of kproxy's own authority.",
    )
    cert: ExistingFile | None = option(
        "--cert", of_cluster=True, help="Use TLS for clients, with this certificate chain (PEM)."
    )
    cert_key: ExistingFile | None = option(
        "--cert-key", of_cluster=True, former=("--key",), help="The private key of --cert (PEM)."
    )
    client_ca: ExistingFile | None = option(
        "--client-ca", of_cluster=True, help="Require client certificates signed by these authorities (PEM)."
    )
    tls_keylog: FileName = option("--tls-keylog", default="", help="Append TLS secrets to FILE.")


@options
class RecordingOptions:
    """What is recorded."""

    title = "Recording"
    write: FileName | None = option(
        "-w", "--write", help="Append all traffic to a pcapng file, in plain text."
    )
    rotate_size: int | None = option(
        "--rotate-size", type=size_type(1 << 16), help="With -w: start a new file after this size."
    )
    rotate_time: Time | None = option("--rotate-time", help="With -w: start a new file after this time.")
    rotate_count: Count | None = option("--rotate-count", help="With -w: keep the newest N files.")
    no_capture: bool = option("--no-capture", help="Only forward; record and show nothing.")
    spool: SpoolSize | None = option(
        "--spool", help="Without -w: disk space for the recording. Default: 8GiB."
    )
    lossless: bool = option("--lossless", help="Slow forwarding down rather than leave traffic unrecorded.")
    queue: int = option(
        "--queue", type=size_type(1 << 20), default="64MiB", help="Memory between forwarding and recording."
    )


@options
class FaultOptions:
    """What is done to messages that pass."""

    title = "Faults"
    faults: tuple[str, ...] = option(
        "--fault", type=FILTER, metavar="RULE", help="'FILTER => ACTION', or 'broker N down': docs/faults.md."
    )
    rules: ExistingFile | None = option(
        "--rules", help="Fault rules, one a line; read again when the file changes."
    )
    hold: FilterString = option(
        "--hold", default="", help="Hold matching requests until kproxy ctl releases them."
    )
    client_timeout: Time = option(
        "--client-timeout",
        default="30s",
        help="Clients' request.timeout.ms: held messages are released before it ends. Default: 30s.",
    )
    force: bool = option(
        "--force",
        help="Allow fault rules that match everything, and --authenticate beyond loopback addresses.",
    )


@options
class MetricsOptions:
    """Metrics for Prometheus."""

    title = "Metrics"
    metrics: ListenAddress | None = option("--metrics", help="Prometheus metrics: docs/metrics.md.")
    metrics_topics: Number = option("--metrics-topics", default=100, help="Topics with metrics of their own.")


@options
class ControlHttpOptions:
    """The control commands over HTTP."""

    title = "Control"
    control_http: ListenAddress | None = option(
        "--control-http",
        help="Serve the commands of kproxy ctl over HTTP: docs/ctl.md.",
    )
    control_token: FileName | None = option(
        "--control-token",
        metavar="FILE",
        help="With --control-http: file with its token, created if missing. Default: in the run folder.",
    )
    control_cert: ExistingFile | None = option(
        "--control-cert", help="With --control-http: use TLS, with this certificate chain and its key (PEM)."
    )


@options
class ProxyOptions(
    LiveOptions,
    WebOption,
    RecorderOptions,
    MetricsOptions,
    OtlpOption,
    ControlHttpOptions,
    FaultOptions,
    RecordingOptions,
    ClientTlsOptions,
    ForwardingOptions,
):
    """Options of ``kproxy proxy``."""

    title = "Showing"
    quiet: bool = option("-q", "--quiet", help="Only forward and record; print no exchanges.")
    web_control: bool = option(
        "--web-control", help="With --web: let browsers do what the UI on this terminal can do."
    )
    keep: FilterString | None = option(
        "--keep",
        heading="Flight recorder",
        help="Flight recorder: save the traffic around exchanges that match.",
    )


@command(
    ProxyOptions, short_help="Forward, record and show traffic between clients and brokers.", epilog=EPILOG
)
def proxy(options: ProxyOptions) -> None:
    """Stand between Kafka clients and brokers: forward, record, show.

    Clients connect to --listen instead of a broker. kproxy replaces the addresses of all brokers in responses with its
    own, so that all traffic passes through it. It opens a port for each broker as the broker becomes known; the port is
    the same after a restart. All other bytes pass unchanged.

    All traffic is recorded as a capture that Wireshark and kproxy can read: with -w in a file, else in a bounded spool
    that is removed at the end. On a terminal kproxy opens the UI (docs/ui.md), else it prints exchanges. Ctrl-C, or
    quitting the UI, lets requests in flight finish and ends the proxy.

    It listens on 127.0.0.1 by default: every client that can connect has the rights of kproxy's address at the brokers.
    """
    settings = settings_of(options)
    background = None
    if options.detach and _watches(options):
        from kproxy.cli.background import continue_in_background

        background = continue_in_background(keeps_pipes=_prints(options))
    from kproxy.cli.proxy_run import ProxyRun

    quiet = options.quiet or (options.detach and not _prints(options))
    with reported_endings():
        sys.exit(ProxyRun(settings, options, quiet=quiet, background=background).run())


def _prints(options: ProxyOptions) -> bool:
    """Return whether the options ask for printed output."""
    return options.diagnose or bool(
        not options.quiet and (options.as_json or options.verbose or options.wanted)
    )


def _watches(options: ProxyOptions) -> bool:
    """Return whether the options need a process beside the data plane."""
    return _reads(options) or options.control_http is not None


def _reads(options: ProxyOptions) -> bool:
    """Return whether the options need the recording."""
    return _prints(options) or any(each is not None for each in (options.keep, options.metrics, options.otlp))


def settings_of(options: ProxyOptions) -> Settings:
    """Return the settings of the data plane; its run folder is set later.

    :raises click.UsageError: if the options ask for something impossible
    """
    _refuse_contradictions(options)
    from msgspec import structs

    from kproxy.proxy.recorder import RecordingOptions
    from kproxy.proxy.settings import Settings

    first, *others = [_cluster_settings(name, each) for name, each in _clusters(options)]
    listens = [each.listen for each in (first, *others) if each.listen[1]]
    if len(set(listens)) < len(listens):
        raise click.UsageError("two clusters have the same address in listen: each needs one of its own")
    _check_rules(options, [each.name for each in (first, *others)])
    settings = Settings(
        **structs.asdict(first),
        others=tuple(others),
        mode=options.mode,
        keylog=str(Path(options.tls_keylog).absolute()) if options.tls_keylog else "",
        tproxy=options.tproxy,
        keep_client_address=options.keep_client_address,
        recorded=RecordingOptions(
            on=not options.no_capture,
            path=str(Path(options.write).absolute()) if options.write else "",
            limit=options.spool or 0,
            rotate_size=options.rotate_size or 0,
            rotate_time=(options.rotate_time or 0) / SECOND,
            rotate_count=options.rotate_count or 0,
            queue=options.queue,
            lossless=options.lossless,
        ),
        forward=not (options.no_forward or options.stub),
        stub=options.stub,
        faults=options.faults,
        rules_file=str(Path(options.rules).absolute()) if options.rules else "",
        hold=options.hold,
        client_timeout=options.client_timeout / SECOND,
        force=options.force,
        most_connections=options.max_connections,
        most_frame=options.max_frame,
        detached=options.detach and not _watches(options),
        idle_timeout=options.idle_timeout / SECOND,
        drain=options.drain / SECOND,
    )
    refusals = [_authentication_refusal(each, force=options.force) for each in settings.clusters]
    refusal = next(filter(None, [MODES[options.mode].refusal(settings), *refusals]), "")
    if refusal:
        raise click.UsageError(refusal)
    return settings


_PORTS_APART = 100
"""Between the first ports of clusters, unless the configuration file says otherwise."""


def _clusters(options: ProxyOptions) -> Iterator[tuple[str, ProxyOptions]]:
    """Yield each cluster's name, empty if it needs none, with the options for it.

    Clusters are those that ``-b`` names; without ``-b``, those in the configuration file.
    """
    given = [name for name, _ in options.bootstrap]
    tables: dict[str, dict[str, Any]] = {}
    if all(given):
        with usage_errors(ConfigurationError):
            tables = cluster_options(current(), click.get_current_context())
    refuse_contradictions(
        {
            "several -b are several clusters, which need names: -b NAME=HOST:PORT; separate the brokers of one cluster "
            "by commas": len(given) > 1 and not all(given),
            "-b: each cluster needs a name of its own": len(set(given)) < len(given),
            "--stub stands for one cluster": options.stub and len(given or tables) > 1,
        }
    )
    host, port = options.listen
    for index, name in enumerate(given or tables or [""]):
        own = {"listen": (host, port and port + index * _PORTS_APART)} | tables.get(name, {})
        if given:
            own["bootstrap"] = options.bootstrap[index : index + 1]
        if own["listen"][1] > MOST_PORT:
            raise click.UsageError(
                f"{name} has no port {_PORTS_APART * index} after that of --listen: use a lower one"
            )
        yield name, replace(options, **own)


def _cluster_settings(name: str, options: ProxyOptions) -> ClusterSettings:
    """Return the settings of a cluster.

    :raises click.UsageError: if an option is invalid
    """
    from kproxy.proxy.address_map import AddressMap, MapError
    from kproxy.proxy.broker_policy import AllowedError, BrokerPolicy
    from kproxy.proxy.brokers import Ports, PortsError
    from kproxy.proxy.settings import ClusterSettings
    from kproxy.proxy.tls.sni import NodeNames, NodeNamesError

    bootstrap = tuple(each for _, brokers in options.bootstrap for each in brokers)
    security, named = security_of(options.command_config)
    if named and not bootstrap:
        bootstrap = BROKERS.convert(named, None, None)
    with usage_errors(PortsError, NodeNamesError, AllowedError, MapError):
        Ports.parse(options.ports, options.listen[1])
        if options.sni:
            NodeNames(options.sni)
        BrokerPolicy(options.allow_brokers)
        AddressMap(options.mapped)
    return ClusterSettings(
        name=name,
        bootstrap=bootstrap,
        listen=options.listen,
        advertised=options.advertise,
        ports=options.ports,
        sni=options.sni,
        allowed_brokers=options.allow_brokers,
        mapped=options.mapped,
        security=security,
        authenticate=options.authenticate,
        client_tls=_served(options),
    )


def _authentication_refusal(settings: ClusterSettings, *, force: bool) -> str:
    """Return why ``--authenticate`` is impossible or needs ``--force``; empty if it is allowed or not given."""
    from kproxy.proxy.broker_policy import network
    from kproxy.proxy.sasl import SaslError, mechanism

    sasl, host = settings.security.sasl, settings.listen[0]
    if not settings.authenticate:
        return ""
    if sasl is None:
        return (
            "--authenticate needs credentials: security.protocol=SASL_SSL or SASL_PLAINTEXT, sasl.mechanism and "
            "sasl.jaas.config in --command-config"
        )
    try:
        mechanism(sasl)
    except SaslError as error:
        return f"--authenticate: {error}"
    if network(host) != "loopback" and not force:
        return (
            f"with --authenticate any client that can connect to {host or 'this machine'} has the rights of kproxy's "
            "credentials: listen on 127.0.0.1, or allow it with --force"
        )
    return ""


def _refuse_contradictions(options: ProxyOptions) -> None:
    """Refuse options that contradict each other."""
    written = options.write is not None
    rotated = options.rotate_size or options.rotate_time or options.rotate_count
    printed = options.as_json or options.verbose
    wrong = {
        "--rotate-* is about the file of -w": rotated and not written,
        "--spool is for recording without -w: use one or the other": options.spool and written,
        "--no-capture records nothing, -w records: use one or the other": options.no_capture and written,
        "--no-capture has nothing to show or to keep": options.no_capture
        and (_reads(options) or options.web is not None),
        "--detach leaves the terminal, where --web prints its URL: use kproxy attach --web": options.detach
        and options.web is not None,
        "--control-token and --control-cert need --control-http": options.control_http is None
        and (options.control_token is not None or options.control_cert is not None),
        "--web-control needs --web": options.web_control and options.web is None,
        "--detach leaves the terminal: send what is printed to a file, or use kproxy attach": options.detach
        and _prints(options)
        and sys.stdout.isatty(),
        "-q shows nothing, but --json and -V do: use one or the other": options.quiet and printed,
        "--authenticate needs brokers, --stub and --no-forward connect to none": options.authenticate
        and (options.stub or options.no_forward),
        "--stub answers, --no-forward closes: use one or the other": options.stub and options.no_forward,
        "--keep copies out of the spool; with -w everything is kept": options.keep is not None and written,
    }
    refuse_contradictions(wrong)


def _served(options: ProxyOptions) -> ClientTls | None:
    """Return the TLS settings towards clients; None for plaintext."""
    from kproxy.proxy.settings import ClientTls
    from kproxy.proxy.tls.stores import StoreError, pem_identity

    cert, key, client_ca = options.cert, options.cert_key, options.client_ca
    if (cert is None) != (key is None):
        raise click.UsageError("use --cert and --cert-key together")
    if cert is None and not (options.client_tls or options.sni):
        if client_ca is not None:
            raise click.UsageError(
                "--client-ca is about TLS for clients: give --cert and --cert-key, or --client-tls"
            )
        return None
    authorities = None if client_ca is None else Path(client_ca).read_text()
    if cert is None or key is None:
        return ClientTls(None, "required" if authorities else "none", authorities)
    with usage_errors(StoreError, before=f"--cert {cert}, --cert-key {key}: "):
        identity = pem_identity(f"{Path(key).read_text()}\n{Path(cert).read_text()}")
    return ClientTls(identity, "required" if authorities else "none", authorities)


def _check_rules(options: ProxyOptions, clusters: Sequence[str]) -> None:
    """Check rules here, where errors can be shown.

    :param clusters: their names
    """
    if not options.faults and not options.hold and not options.rules:
        return
    from captures.filters import FilterError
    from kproxy.proxy.rules import Inspection
    from kproxy.proxy.rules.rules_file import RulesFile

    inspection = Inspection(clusters=clusters)
    try:
        for rule in options.faults:
            inspection.rules.add(rule, force=options.force)
        if options.rules:
            RulesFile(Path(options.rules), force=options.force).apply(inspection.rules)
        if options.hold:
            inspection.holds.set_filter(options.hold)
    except FilterError as error:
        raise click.UsageError(f"invalid rule: {error.render()}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
