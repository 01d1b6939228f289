"""
The API server's audit log as writes in the order of their resourceVersions.

An audit event (audit.k8s.io/v1, level RequestResponse) has the object as it was stored. All kinds share one etcd, so
resourceVersions order the writes of different kinds as well. Bindings and evictions answer with a Status: they come
after what was logged before them. Deletions of whole collections are left out: an allocated claim has a finalizer, and
what removes that is a write of its own.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from e2e.audit.reading import Json, Key

_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_CHANGES: Final = frozenset({"create", "update", "patch", "delete"})
_KEPT: Final = {
    "resourceclaims": ("status",),
    "resourceslices": ("spec",),
    "leases": ("spec",),
    "devicequotas": ("spec",),
    "deviceholds": ("spec", "status"),
    "repairplans": ("spec", "status"),
}
_FIRST_FAILURE: Final = 300
_MAY_HAVE_ACTED: Final = 500
"""From this status on, and without one, the server may have stored what was asked for."""
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_DEEPEST: Final = 100
"""Nothing that the history reads is nested as deep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """
    One write: its user, its object, and what is stored now.

    `credential` is the id of the token, which differs between processes with one account. `stored` has metadata and
    what the history reads; it is empty for bindings, evictions, and where the answer does not tell the outcome
    (`is_known` is False then).
    """

    version: int
    seconds: float
    user: str
    credential: str
    resource: str
    subresource: str
    key: Key
    stored: Json
    is_gone: bool
    is_known: bool

    @property
    def uid(self) -> str:
        """The uid of the stored object; empty where nothing is known of it."""
        return str(self.stored.get("metadata", {}).get("uid", ""))


def read_writes(lines: Iterable[str]) -> list[Write]:
    """
    Read audit events, one in JSON a line, in any order of their completion.

    Refused writes, trials (dryRun), and writes that changed nothing are left out. Raises ValueError for a line that is
    not JSON, but for the last one, which may be cut off.
    """
    found: list[Write] = []
    stored: set[tuple[str, Key, int]] = set()
    highest = 0
    for event in _events(lines):
        write = _write(event, highest)
        if write is None:
            continue
        about = write.resource, write.key, write.version
        is_unchanged = bool(write.stored) and not write.is_gone and about in stored
        if write.stored:
            stored.add(about)
        highest = max(highest, write.version)
        if not is_unchanged:
            found.append(write)
    return sorted(found, key=lambda each: each.version)


def _events(lines: Iterable[str]) -> Iterable[Json]:
    for line in lines:
        if line.endswith("\n"):
            try:
                yield json.loads(line)
            except RecursionError:
                yield json.loads(_without_deep_values(line))


def _without_deep_values(line: str) -> str:
    """Put null for values that are nested too deep: the API server stores 10,000 levels, and Python reads fewer."""
    kept, depth, begin = list[str](), 0, 0
    for token in _TOKENS.finditer(line):
        if token[0] in {"[", "{"}:
            if depth == _DEEPEST:
                kept += line[begin : token.start()], "null"
            depth += 1
        elif token[0] in {"]", "}"}:
            depth -= 1
            if depth == _DEEPEST:
                begin = token.end()
    return "".join((*kept, line[begin:]))


def _write(event: Json, highest: int) -> Write | None:
    """Read one event; `highest` is the highest version that was logged before."""
    about, code = event.get("objectRef", {}), event.get("responseStatus", {}).get("code", 0)
    is_known = 0 < code < _FIRST_FAILURE
    if event["verb"] not in _CHANGES or _is_trial(event) or _FIRST_FAILURE <= code < _MAY_HAVE_ACTED:
        return None
    answer = event.get("responseObject") or {}
    stored = answer if is_known and _is_stored(answer) else {}
    is_gone = bool(stored) and _is_gone(event["verb"], stored["metadata"])
    version = int(stored["metadata"]["resourceVersion"]) if stored else highest
    if is_gone and event["verb"] != "delete":
        version = max(version, highest)  # the answer has the version before the removal
    user = event.get("user", {})
    name = about.get("name") or stored.get("metadata", {}).get("name", "")
    return Write(
        version=version,
        seconds=datetime.fromisoformat(event["stageTimestamp"]).timestamp(),
        user=user.get("username", ""),
        credential=",".join((user.get("extra") or {}).get(_CREDENTIAL) or ()),
        resource=about.get("resource", ""),
        subresource=about.get("subresource", ""),
        key=Key(about.get("namespace", ""), name),
        stored=_kept(about.get("resource", ""), stored),
        is_gone=is_gone,
        is_known=is_known,
    )


def _is_stored(answer: Json) -> bool:
    """Say whether an answer is an object as it was stored, and not a Status or an object that no etcd has."""
    return bool(answer.get("metadata", {}).get("resourceVersion"))


def _kept(resource: str, stored: Json) -> Json:
    """Leave out what no check reads: the log of an hour has hundreds of thousands of writes."""
    fields = ("metadata", *_KEPT.get(resource, ()))
    kept = {field: stored[field] for field in fields if field in stored}
    if resource == "pods" and stored:
        kept["status"] = {"phase": stored.get("status", {}).get("phase", "")}
    return kept


def _is_trial(event: Json) -> bool:
    asked = event.get("requestObject") or {}
    options = asked.get("deleteOptions") or asked if isinstance(asked, dict) else {}
    return "dryRun=" in event.get("requestURI", "") or bool(options.get("dryRun"))


def _is_gone(verb: str, metadata: Json) -> bool:
    """Say whether a write has removed the object: nothing holds it any more, neither finalizers nor grace."""
    is_deleted = verb == "delete" or "deletionTimestamp" in metadata
    return is_deleted and not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")
