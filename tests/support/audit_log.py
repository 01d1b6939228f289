"""An API server's audit log, event by event."""

import datetime as dt
import json
from collections.abc import Iterable
from typing import Any, Final

from e2e.audit.history import History
from e2e.audit.reading import Json, Key
from e2e.audit.writes import Write, read_writes

LEASE: Final = Key("dovetail-system", "dovetail")
START: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class AuditLog:
    """Audit events, one second after the other; each write that is stored has the next resourceVersion."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.version = 0
        self.seconds = 0.0

    def add(self, verb: str, resource: str, name: str, stored: Json | None, **event: Any) -> None:
        """Add an event; `code`, `by`, `asked` and `subresource` differ from a success of the leader's."""
        self.seconds += 1
        answer = stored or {"kind": "Status"}
        if stored is not None:
            self.version += 1
            answer = {**stored, "metadata": {**stored["metadata"], "resourceVersion": str(self.version)}}
        by = event.get("by", "one")
        about = {"resource": resource, "namespace": "ml", "name": name, "subresource": event.get("subresource", "")}
        line = {
            "stage": "ResponseComplete",
            "verb": verb,
            "objectRef": {**about, **({"namespace": LEASE.namespace} if resource == "leases" else {})},
            "user": {"username": "dovetail", "extra": {"authentication.kubernetes.io/credential-id": [by]}},
            "responseStatus": {"code": event.get("code", 200)},
            "requestObject": event.get("asked"),
            "responseObject": answer,
            "stageTimestamp": (START + dt.timedelta(seconds=self.seconds)).isoformat().replace("+00:00", "Z"),
        }
        self.lines.append(json.dumps(line) + "\n")

    def lead(self, holder: str) -> None:
        """Write a holder into the Lease, or renew it; an empty one gives it up."""
        renewed = (START + dt.timedelta(seconds=self.seconds)).isoformat()
        spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15 if holder else 1}
        stored = {"metadata": {"name": LEASE.name, "uid": "lease"}, "spec": spec}
        self.add("patch", "leases", LEASE.name, stored, by=holder or "one")

    def claim(
        self, name: str, *devices: Json, verb: str = "patch", reserved: Iterable[Json] = (), **event: Any
    ) -> None:
        """Store a claim that holds these devices; none take its allocation away."""
        status: Json = {"reservedFor": list(reserved)}
        if devices:
            status["allocation"] = {"devices": {"results": list(devices)}}
        stored = {"metadata": {"namespace": "ml", "name": name, "uid": name}, "status": status}
        self.add(verb, "resourceclaims", name, stored, subresource="status" if verb == "patch" else "", **event)

    def pod(self, verb: str, phase: str = "Running", **metadata: Any) -> None:
        """Store the pod `p`."""
        stored = {"metadata": {"namespace": "ml", "name": "p", "uid": "pod-p", **metadata}, "status": {"phase": phase}}
        self.add(verb, "pods", "p", stored)

    def slice(self, *devices: Json, **spec: Any) -> None:
        """Publish the pool."""
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
        stored = {
            "metadata": {"name": "s", "uid": "s"},
            "spec": {"driver": "d", "pool": pool, "devices": devices, **spec},
        }
        self.add("create", "resourceslices", "s", stored)

    def writes(self) -> list[Write]:
        return read_writes(self.lines)

    def history(self, left_seconds: float = 30.0) -> History:
        return History.of(self.writes(), lease=LEASE, left_seconds=left_seconds)

    def rules(self) -> list[str]:
        return [each.rule for each in self.history().findings]


def device(name: str = "gpu-0", **result: Any) -> Json:
    return {"request": "r", "driver": "d", "pool": "n1", "device": name, **result}
