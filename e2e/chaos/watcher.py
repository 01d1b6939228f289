"""Watches pods, claims and RepairPlans for the judge, without hostile pods; lists them when a watch begins anew."""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from e2e.audit.reading import Json
from e2e.chaos.cluster import HOSTILE_NAMESPACE
from e2e.chaos.judge import Judge
from e2e.controlplane.access import Access, RequestError

PATHS = {
    "pods": "/api/v1/pods",
    "claims": "/apis/resource.k8s.io/v1/resourceclaims",
    "plans": "/apis/dovetail.dev/v1alpha1/repairplans",
}
TICK_SECONDS = 0.5
SILENCE_SECONDS = 60


class Watcher:
    """Feeds a judge from the API server until the block ends."""

    def __init__(self, access: Access, judge: Judge) -> None:
        self._access = access
        self._judge = judge
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._uids: dict[str, dict[str, Json]] = {name: {} for name in PATHS}
        runs = [lambda name=name: self._watch(name) for name in PATHS]
        self._threads = [threading.Thread(target=run, daemon=True) for run in (*runs, self._tick)]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End; a watch that is open ends with its server."""
        self._stop.set()

    def ask(self, question: Callable[[Judge], Any]) -> Any:
        """Ask the judge something while nothing changes."""
        with self._lock:
            return question(self._judge)

    def _tick(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            self.ask(lambda judge: judge.tick(time.monotonic()))

    def _watch(self, name: str) -> None:
        version = ""
        while not self._stop.is_set():
            try:
                version = version or self._list(name)
                for event in self._events(name, version):
                    if event["type"] == "ERROR":
                        version = ""
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._see(name, event["object"], is_gone=event["type"] == "DELETED")
            except (OSError, RequestError, http.client.HTTPException, ValueError):
                time.sleep(TICK_SECONDS)

    def _list(self, name: str) -> str:
        found = self._access.request("GET", PATHS[name])
        there = {each["metadata"]["uid"] for each in found["items"]}
        for uid, known in list(self._uids[name].items()):
            if uid not in there:
                self._see(name, known, is_gone=True)
        for each in found["items"]:
            self._see(name, each, is_gone=False)
        return str(found["metadata"]["resourceVersion"])

    def _see(self, name: str, item: Json, *, is_gone: bool) -> None:
        if name == "pods" and item["metadata"]["namespace"] == HOSTILE_NAMESPACE:
            return
        with self._lock:
            self._uids[name].pop(item["metadata"]["uid"], None)
            if not is_gone:
                self._uids[name][item["metadata"]["uid"]] = item
            match name:
                case "claims":
                    self._judge.claim(item, is_gone=is_gone)
                case "plans":
                    self._judge.plan(item)
                case _:
                    self._judge.pod(item, time.monotonic(), is_gone=is_gone)

    def _events(self, name: str, version: str) -> Iterator[Json]:
        with contextlib.closing(self._access.connection(SILENCE_SECONDS)) as upstream:
            query = f"?watch=1&allowWatchBookmarks=true&resourceVersion={version}"
            upstream.request("GET", PATHS[name] + query, headers={"Authorization": f"Bearer {self._access.token}"})
            answer = upstream.getresponse()
            if answer.status >= http.client.BAD_REQUEST:
                raise RequestError(answer.status, answer.read().decode(errors="replace"))
            while line := answer.readline():
                yield json.loads(line)
