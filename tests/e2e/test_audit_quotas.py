"""The history finds allocations beyond the limit of a DeviceQuota, of the scheduler, once the quota binds."""

from collections.abc import Sequence
from typing import Any

from e2e.audit.history import History
from e2e.audit.quotas import BINDS_SECONDS, NAME_LABEL
from e2e.audit.reading import Key
from e2e.audit.writes import Write

LEASE = Key("dovetail-system", "dovetail")
OURS, THEIRS = "dovetail", "kube-scheduler"


class Log:
    """Writes, one a second, after the scheduler has taken its Lease."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.seconds = 1000.0
        self._add("leases", LEASE, {"spec": {"holderIdentity": "a"}})

    def _add(self, resource: str, key: Key, stored: dict[str, Any], user: str = OURS, **more: Any) -> None:
        version = len(self.writes) + 1
        metadata = {"name": key.name, "namespace": key.namespace, "uid": f"uid-{key}", "resourceVersion": str(version)}
        self.writes.append(
            Write(
                version=version,
                seconds=self.seconds,
                user=user,
                credential="token",
                resource=resource,
                subresource=more.get("subresource", ""),
                key=key,
                stored={"metadata": metadata, **stored} if stored else {},
                is_gone=more.get("is_gone", False),
                is_known=True,
            )
        )
        self.seconds += 1

    def quota(self, limit: int, *names: str, **more: Any) -> None:
        terms = [{"key": NAME_LABEL, "operator": "In", "values": list(names)}]
        resources = [{"deviceClass": "gpus", "limit": limit}, {"deviceClass": "others", "limit": 0}]
        spec = {"namespaceSelector": {"matchExpressions": terms}, "resources": resources}
        self._add("devicequotas", Key("", "q"), {"spec": spec}, "admin", **more)

    def allocate(self, name: str, *devices: str, namespace: str = "red", user: str = OURS, driver: str = "gpu") -> None:
        results = [{"request": "r", "driver": driver, "pool": "n", "device": each} for each in devices]
        stored = {"status": {"allocation": {"devices": {"results": results}}} if devices else {}}
        self._add("resourceclaims", Key(namespace, name), stored, user, subresource="status")

    def findings(self) -> Sequence[str]:
        history = History.of(self.writes, lease=LEASE, left_seconds=1e9, quota_drivers={"gpus": "gpu"})
        return [f"{each.subject}: {each.message}" for each in history.findings if each.rule == "quota"]


def test_an_allocation_beyond_the_limit_is_found_with_all_namespaces_of_the_quota() -> None:
    log = Log()
    log.quota(3, "red", "blue")
    log.seconds += BINDS_SECONDS
    log.allocate("a", "g0", "g1")
    log.allocate("b", "g2", namespace="blue")
    assert log.findings() == []
    log.allocate("c", "g3", namespace="elsewhere")
    assert log.findings() == []
    log.allocate("d", "g4", namespace="blue")
    (found,) = log.findings()
    assert found.startswith("q: 4 devices of gpu are held with claim blue/d at version 6, and its limit is 3")


def test_what_was_given_back_counts_no_more_and_what_others_allocate_is_theirs() -> None:
    log = Log()
    log.quota(1, "red")
    log.seconds += BINDS_SECONDS
    log.allocate("a", "g0")
    log.allocate("a")
    log.allocate("b", "g0")
    log.allocate("c", "g1", user=THEIRS)
    assert log.findings() == []
    log.allocate("d", "x0", driver="other")
    assert log.findings() == []
    log.allocate("e", "g2")
    assert len(log.findings()) == 1


def test_a_quota_binds_a_while_after_its_last_change_and_not_when_it_is_gone() -> None:
    log = Log()
    log.quota(9, "red")
    log.seconds += BINDS_SECONDS
    log.quota(0, "red")
    log.allocate("a", "g0")
    assert log.findings() == []
    log.seconds += BINDS_SECONDS
    log.quota(0, "red", subresource="status")
    log.allocate("b", "g1")
    assert len(log.findings()) == 1
    log.quota(0, "red", is_gone=True)
    log.seconds += BINDS_SECONDS
    log.allocate("c", "g2")
    assert len(log.findings()) == 1
