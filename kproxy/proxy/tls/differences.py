"""Sentences, shown at the start, about what brokers and clients see differently with kproxy between them.

They cover only relevant effects of the settings: the identity of clients for the broker, and mechanisms bound to host
names.
"""

from __future__ import annotations

from ipaddress import ip_address

from kproxy.proxy.modes import MODES, Mode
from kproxy.proxy.settings import ClientTls, ClusterSettings, Settings
from kproxy.proxy.tls.certificates import names_of, pem_blocks
from kproxy.proxy.tls.security import Identity, Security


def what_differs(settings: Settings) -> list[str]:
    """Return what brokers and clients will see differently with `settings`, a sentence or two for each effect."""
    differences: list[str] = []
    if not settings.keep_client_address:
        differences.append(
            "brokers see kproxy's address in place of the clients': ACLs by host, max.connections.per.ip and "
            "connection rate quotas by IP take all clients for one"
        )
    clusters: dict[str, list[str]] = {}
    for cluster in settings.clusters:
        for sentence in _of_cluster(cluster, MODES[settings.mode]):
            clusters.setdefault(sentence, []).append(cluster.name)
    for sentence, names in clusters.items():
        whose = f"{', '.join(names)}: " if len(names) < len(settings.clusters) else ""
        differences.append(f"{whose}{sentence}")
    return differences


def _of_cluster(settings: ClusterSettings, mode: type[Mode]) -> list[str]:
    security, tls = settings.security, settings.client_tls
    listen = settings.listen[0]
    advertised = settings.sni or settings.advertised or listen
    differences = _certificates(security, tls)
    if settings.authenticate and security.sasl is not None:
        name = f" as {security.sasl.username}" if security.sasl.username else ""
        differences.append(
            f"kproxy authenticates all clients at the brokers{name} ({security.sasl.mechanism}, --authenticate): "
            f"any client that can connect to {listen} has these rights, for ACLs and quotas all clients are one user"
        )
    elif not mode.keeps_names:
        differences.append(
            f"clients reach brokers by the name {advertised}: SASL that is bound to the broker's own host name fails "
            "(GSSAPI, AWS_MSK_IAM), PLAIN, SCRAM and OAUTHBEARER pass through"
        )
    if mode.rewrites and tls is not None and tls.identity is not None:
        differences += _misnamed(tls.identity, advertised)
    if tls is not None and tls.identity is None:
        from kproxy.proxy.tls.authority import CERTIFICATE, TRUST_STORE, default_folder

        folder = default_folder()
        differences.append(
            f"clients have to trust kproxy's own authority: its certificate is {folder / CERTIFICATE}, and "
            f"{folder / TRUST_STORE} for Java (docs/proxy-tls.md)"
        )
    return differences + _in_clear(security, listen, client_tls=tls is not None)


def _certificates(security: Security, client_tls: ClientTls | None) -> list[str]:
    """Return the effects on mutual TLS, which ends at kproxy on one side and begins there on the other."""
    differences = []
    if security.tls is not None and security.tls.identity is not None:
        differences.append(
            "brokers see kproxy's certificate in place of the clients': with mutual TLS every client is the principal "
            "of that certificate, for ACLs and quotas"
        )
    elif client_tls is not None and client_tls.client_auth != "none":
        differences.append(
            "clients' certificates end at kproxy, and brokers are shown none: who is known by a certificate there is "
            "User:ANONYMOUS, or refused where ssl.client.auth=required"
        )
    return differences


def _misnamed(shown: Identity, advertised: str) -> list[str]:
    """Return a warning if kproxy's certificate does not match the names that clients use."""
    host = advertised.replace("{node_id}", "1").lower()
    names = names_of(pem_blocks(shown.chain)[0].data)
    wildcard = f"*.{host.partition('.')[2]}"  # for one label, the first (RFC 6125, section 6.4.3)
    if {host, wildcard} & {name.lower() for name in names}:
        return []
    return [
        f"clients get the host {host} and will refuse the certificate, which is for {', '.join(names) or 'none'}"
    ]


def _in_clear(security: Security, listen: str, *, client_tls: bool) -> list[str]:
    """Return a warning if only one side is encrypted."""
    differences = []
    if security.tls is not None and not client_tls and not _is_loopback(listen):
        differences.append(
            f"clients reach kproxy on {listen} without TLS: passwords and records that brokers get encrypted cross the "
            "network in clear on that side"
        )
    if client_tls and security.tls is None:
        differences.append(
            "what clients send encrypted crosses the network in clear between kproxy and the brokers"
        )
    return differences


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
