"""
Asks "would this fit?" of processes: one at a time, one question of a caller, and few that wait.

A process holds a whole cluster and solves on it, so a second one at the same time could take the memory of the page.
"""

import asyncio
import contextlib
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from scheduler import NAMESPACE
from scheduler.api.refusals import Refusal
from scheduler.settings import Settings, default
from scheduler.visibility import VisibleNamespaces
from scheduler.worker import child
from scheduler.worker.fork_server import ENVIRONMENT

COMMAND: Final = (sys.executable, "-P", "-m", "scheduler.page.fit_process")
"""`-P`: a folder `scheduler` or a `yaml.py` where the page was started is not imported."""
SECONDS: Final = 60.0
"""How long an answer may take, the reading of the cluster included."""
MOST_BYTES: Final = 1024 * 1024
"""The largest manifest; etcd takes no larger object either."""
_MOST_WAITING: Final = 8
_PATIENCE_SECONDS: Final = 30.0
"""How long a question waits for those before it."""
_START_SECONDS: Final = 20.0
"""How long the process may take until it limits itself."""
_MOST_NAMED: Final = 50
_NAMESPACE: Final = re.compile(rb"namespace[\"']?[ \t]*:[ \t]*[\"']?([a-z0-9][-a-z0-9]{0,62})")
_INSTEAD: Final = "`dovetail fit -f FILE` has no such limit"


class FitSource(msgspec.Struct, frozen=True, kw_only=True):
    """
    The cluster that the questions are about, and the configuration of the scheduler.

    It is a live one by a kubeconfig file (None: the pod's service account) and a context, or that of `files`. Objects
    that name no namespace are in `namespace`. `scheduler_namespace` is that of the scheduler, whose leader says which
    nodes are reserved. Schedulers serve `scheduler_names` (None: the configuration's; empty: not known), and where it
    `is_certain` no others.
    """

    kubeconfig: str | None = None
    context: str = ""
    namespace: str = "default"
    scheduler_namespace: str = NAMESPACE
    files: tuple[str, ...] = ()
    settings: Settings = msgspec.field(default_factory=default)
    scheduler_names: tuple[str, ...] | None = None
    is_certain: bool = True


class FitQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """
    A question: manifests, the namespace of objects that name none, and how many copies are wanted.

    `wanted` is None where only the pods themselves are asked about, and 0 for as many as fit. The caller sees pods and
    claims of `namespaces`, and nodes or not. With `adds_nodes` the question is which nodes to add, and without content
    it is about all pods that wait for the first scheduler of the configuration.
    """

    source: FitSource
    content: bytes
    namespace: str
    wanted: int | None
    namespaces: VisibleNamespaces
    sees_nodes: bool
    adds_nodes: bool = False


class FitFailure(msgspec.Struct, frozen=True, tag_field="kind", tag="FitFailure"):
    """Why there is no answer: the cluster cannot be read."""

    message: str


class FitQuestions:
    """Answers questions about one cluster."""

    def __init__(self, source: FitSource, command: Sequence[str] = COMMAND) -> None:
        """`command` reads a question and writes an answer; it gets this process's id as its last word."""
        self.source: Final = source
        self._command: Final = tuple(command)
        self._turn: Final = asyncio.Lock()
        self._callers: Final[set[str]] = set()

    async def ask(self, caller: str, question: FitQuestion) -> msgspec.Raw:
        """Return the encoded answer. Raise `Refusal`."""
        async with self._turn_of(caller):
            return await self._answered(question)

    @contextlib.asynccontextmanager
    async def _turn_of(self, caller: str) -> AsyncIterator[None]:
        """Wait for the questions before this one. Raise `Refusal` where there are too many."""
        if caller in self._callers:
            raise Refusal(429, "your question before this one has no answer yet", retry_after=5)
        if len(self._callers) >= _MOST_WAITING:
            raise Refusal(429, "too many questions of others wait", retry_after=10)
        self._callers.add(caller)
        try:
            try:
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self._turn.acquire()
            except TimeoutError as error:
                raise Refusal(503, "other questions are being answered: ask again", retry_after=10) from error
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._callers.discard(caller)

    async def _answered(self, question: FitQuestion) -> msgspec.Raw:
        process = await asyncio.create_subprocess_exec(
            *self._command, str(os.getpid()), stdin=PIPE, stdout=PIPE, env=os.environ | ENVIRONMENT
        )
        try:
            async with asyncio.timeout(_START_SECONDS + SECONDS):
                written, _ = await process.communicate(msgspec.json.encode(question))
        except TimeoutError as error:
            raise _too_long() from error
        finally:
            await _end(process)
        if process.returncode:
            raise _ended(process.returncode)
        with contextlib.suppress(msgspec.MsgspecError):  # an answer is no failure
            failure = msgspec.json.decode(written, type=FitFailure)
            raise Refusal(503, failure.message)
        return msgspec.Raw(written)


def named_namespaces(content: bytes) -> tuple[str, ...]:
    """
    Return the namespaces that a text seems to name, the first of them.

    The text is not parsed here: the process does that, and refuses a namespace that was not found or may not be seen.
    """
    found: dict[str, None] = {}
    for match in _NAMESPACE.finditer(content):
        found[match[1].decode("ascii")] = None
        if len(found) == _MOST_NAMED:
            break
    return tuple(found)


async def _end(process: Process) -> None:
    """End a process whose answer is not wanted any more."""
    if process.returncode is None:
        process.kill()
        await process.wait()


def _too_long() -> Refusal:
    return Refusal(503, f"there is no answer within {SECONDS:.0f} seconds: ask about fewer pods; {_INSTEAD}")


def _ended(status: int) -> Refusal:
    if status in {-signal.SIGALRM, -signal.SIGXCPU}:
        return _too_long()
    if status == child.NO_MEMORY:
        limit = "solver.memoryLimitMiB of the configuration"
        return Refusal(503, f"an answer needs more memory than {limit} allows: ask about fewer pods; {_INSTEAD}")
    return Refusal(503, f"the process that looked for an answer has ended (status {status}); {_INSTEAD}")
