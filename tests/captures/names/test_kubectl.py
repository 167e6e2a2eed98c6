"""The tables of kubectl; their layout is that of kubectl 1.32 (k8s.io/cli-runtime, three spaces between columns)."""

import pytest

from captures.names.hosts import LineError
from captures.names.kubectl import entries, is_table

PODS = """\
NAME                       READY   STATUS    RESTARTS        AGE   IP            NODE     NOMINATED NODE   READINESS GATES
orders-7d9c55b9f4-x2x9q    1/1     Running   2 (3h20m ago)   5d    10.244.0.12   node-1   <none>           <none>
kafka-0                    1/1     Running   0               5d    fd00::5       node-2   <none>           <none>
waiting-0                  0/1     Pending   0               2s    <none>        <none>   <none>           <none>
"""  # noqa: E501  as printed

ALL_NAMESPACES = """\
NAMESPACE     NAME               READY   STATUS    RESTARTS   AGE   IP             NODE     NOMINATED NODE   READINESS GATES
shop          kafka-0            1/1     Running   0          5d    10.244.0.12    node-1   <none>           <none>
kube-system   kube-proxy-4xkzt   1/1     Running   0          5d    192.168.49.2   node-1   <none>           <none>
kube-system   etcd-node-1        1/1     Running   0          5d    192.168.49.2   node-1   <none>           <none>
"""  # noqa: E501  as printed

SERVICES = """\
NAME         TYPE           CLUSTER-IP      EXTERNAL-IP                 PORT(S)             AGE   SELECTOR
kubernetes   ClusterIP      10.96.0.1       <none>                      443/TCP             5d    <none>
brokers      ClusterIP      None            <none>                      9092/TCP,9093/TCP   5d    app=kafka
outside      LoadBalancer   10.96.14.7      203.0.113.7,203.0.113.8     9094:31094/TCP      5d    app=kafka
cloud        LoadBalancer   10.96.14.8      a1.elb.amazonaws.com        9094:31095/TCP      5d    app=kafka
soon         LoadBalancer   10.96.14.9      <pending>                   9094:31096/TCP      5d    app=kafka
"""

NODES = """\
NAME     STATUS   ROLES           AGE   VERSION   INTERNAL-IP    EXTERNAL-IP   OS-IMAGE             KERNEL-VERSION   CONTAINER-RUNTIME
node-1   Ready    control-plane   5d    v1.32.0   192.168.49.2   <none>        Ubuntu 22.04.5 LTS   6.8.0-generic    docker://27.4.1
"""  # noqa: E501  as printed


def parsed(text: str) -> dict[str, tuple[str, ...]]:
    lines = text.splitlines()
    assert is_table(lines[0])
    made = list(entries((number, line) for number, line in enumerate(lines, 1) if line.strip()))
    assert all(entry.port is None for entry in made)
    return {entry.address: entry.names for entry in made}


def test_pods() -> None:
    assert parsed(PODS) == {"10.244.0.12": ("orders-7d9c55b9f4-x2x9q",), "fd00::5": ("kafka-0",)}


def test_pods_without_headings() -> None:
    assert parsed(PODS.partition("\n")[2]) == parsed(PODS)


def test_names_of_all_namespaces_have_their_namespace() -> None:
    found = parsed(ALL_NAMESPACES)
    assert found["10.244.0.12"] == ("kafka-0.shop", "kafka-0")
    assert parsed(ALL_NAMESPACES.partition("\n")[2]) == found


def test_pods_that_share_an_address_are_on_their_node() -> None:
    first, *others = parsed(ALL_NAMESPACES)["192.168.49.2"]
    assert first == "node-1"
    assert "etcd-node-1.kube-system" in others


def test_a_pod_that_has_ended_does_not_take_the_name_of_who_has_its_address_now() -> None:
    ended = (
        "migrate-1                  0/1     Completed   0               9d    10.244.0.12   node-1   <none>"
    )
    heading, rows = PODS.split("\n", 1)
    assert parsed(f"{heading}\n{ended}\n{rows}")["10.244.0.12"] == ("orders-7d9c55b9f4-x2x9q", "migrate-1")
    assert parsed(f"{heading}\n{ended}\n")["10.244.0.12"] == ("migrate-1",)


def test_services_by_all_their_addresses() -> None:
    assert parsed(SERVICES) == {
        "10.96.0.1": ("kubernetes",),
        "10.96.14.7": ("outside",),
        "203.0.113.7": ("outside",),
        "203.0.113.8": ("outside",),
        "10.96.14.8": ("cloud",),
        "10.96.14.9": ("soon",),
    }


def test_several_kinds_in_one_call() -> None:
    # kubectl get pods,services,nodes -o wide: tables one after the other, names with their kind
    together = "\n".join(
        [PODS.replace("kafka-0", "pod/kafka-0"), SERVICES.replace("outside", "service/outside"), NODES]
    )
    found = parsed(together)
    assert found["fd00::5"] == ("kafka-0",)
    assert found["203.0.113.7"] == ("outside",)
    assert found["192.168.49.2"] == ("node-1",)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (
            "NAME      READY   STATUS    RESTARTS   AGE\nkafka-0   1/1     Running   0          5d\n",
            1,
            "-o wide",
        ),
        (PODS + "kafka-9   1/1     Running\n", 5, "no column IP"),
        (PODS.replace("fd00::5", "fd00:5 "), 3, "'fd00:5' in column IP is no IP address"),
        ("kafka-0   1/1   Running   0   5d   10.0.0.1   n\n10.0.0.1 other\n", 2, "not a row of kubectl"),
    ],
)
def test_mistakes_are_told_by_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(LineError, match=reason) as caught:
        parsed(text)
    assert caught.value.line == line


@pytest.mark.parametrize("line", ["127.0.0.1   localhost", "::1 localhost", "# 10.0.0.1  kafka", "nonsense"])
def test_hosts_are_no_table(line: str) -> None:
    assert not is_table(line)
