"""
Which cluster a command talks to: kubeconfig file, context and namespace, found as kubectl finds them.

`wait_for` waits for what a command asks.
"""

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from scheduler.kube.client import Client
from scheduler.kube.credentials import SERVICE_ACCOUNT
from scheduler.kube.login import kubeconfig

_DEFAULT_NAMESPACE: Final = "default"

T = TypeVar("T")


class ClusterAccess(NamedTuple):
    """A kubeconfig file (None: the service account of the pod), a context in it ("": the current one), a namespace."""

    path: Path | None
    context: str = ""
    namespace: str = _DEFAULT_NAMESPACE

    def connect(self) -> contextlib.AbstractAsyncContextManager[Client]:
        """Open a client whose reads wait for a server that is busy. Raise `ConfigurationError`."""
        return Client.connect(self.path, self.context, is_patient=True)


def find(
    path: Path | None,
    context: str = "",
    environment: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterAccess:
    """
    Return the access by a file, else by $KUBECONFIG, else by ~/.kube/config, else by the pod's service account.

    Of several files in $KUBECONFIG the first with the context is read. Raise `ConfigurationError`.
    """
    paths = [path] if path is not None else _usual(environment)
    if not paths:
        with contextlib.suppress(OSError):
            return ClusterAccess(None, "", (service_account / "namespace").read_text().strip())
        return ClusterAccess(None)
    selected = kubeconfig.select_among(paths, context)
    return ClusterAccess(selected.path, selected.context, selected.namespace or _DEFAULT_NAMESPACE)


def _usual(environment: Mapping[str, str]) -> list[Path]:
    named = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    if named:
        return named
    home = Path("~")  # no such file then: a container's user without $HOME and without an entry in /etc/passwd
    with contextlib.suppress(RuntimeError):
        home = Path.home()
    usual = home / ".kube" / "config"
    return [] if "KUBERNETES_SERVICE_HOST" in environment and not usual.exists() else [usual]


def wait_for(wanted: Coroutine[Any, Any, T]) -> T:
    """
    Run a coroutine in an event loop of its own, and return what it returns.

    `asyncio.run` does the same, but `signal.getsignal`, which it calls at the end, makes a text of the main task with
    its result: for the objects of 5,000 nodes that takes longer than reading them. Here the task has no result.
    """
    found: list[T] = []

    async def keep() -> None:
        found.append(await wanted)

    asyncio.run(keep())
    return found[0]
