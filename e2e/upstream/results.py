"""One run of a test binary with one scheduler, and what it says about each test."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

from e2e.controlplane import build
from e2e.controlplane.plane import REPOSITORY
from e2e.upstream import suites
from e2e.upstream.suites import Binary

SchedulerName = Literal["kube-scheduler", "Dovetail"]
Outcome = Literal["pass", "fail", "skip", "unfinished"]
TIMEOUT_MINUTES = 90
PARALLEL = 4
NO_ETCD = "http://127.0.0.1:1"  # or the tests would use whatever listens on etcd's port
LOCATION = re.compile(r"^\s*\S+\.go:\d+: ?")
KLOG = re.compile(r"^\s*(\S+\.go:\d+: )?([IWE]\d{4} |Skipping metrics scrape )")
"""Lines of logs, and what every test server says at its end."""
KEPT_LINES = 40


@dataclass(slots=True)
class UpstreamResult:
    """How one test ended."""

    name: str
    outcome: Outcome = "unfinished"
    seconds: float = 0.0
    lines: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """What the test said at its end, without lines of logs."""
        return " ".join(self._said())

    @property
    def reason(self) -> str:
        """Why the test was skipped: what it said last."""
        return next(reversed(self._said()), "")

    def _said(self) -> list[str]:
        said = [LOCATION.sub("", line).strip() for line in self.lines if not KLOG.match(line)]
        return [line for line in said if line and not line.startswith(("===", "---"))]


@dataclass(frozen=True, slots=True)
class Run:
    """What one run needs to know besides its binary."""

    scheduler: SchedulerName
    folder: Path
    etcd: Path
    only: str = ""
    skip: str = ""


def run(binary: Binary, asked: Run, results: dict[str, UpstreamResult]) -> None:
    """Run a binary's tests and put each into `results` by its name; tells on stderr how each ends."""
    log = log_file(asked.folder, binary.package, asked.scheduler)
    state = log.with_suffix("")
    state.mkdir(parents=True, exist_ok=True)
    tests = [str(binary.path), "-test.v=test2json", f"-test.timeout={TIMEOUT_MINUTES}m", f"-test.parallel={PARALLEL}"]
    tests += [f"-test.run={asked.only}"] * bool(asked.only) + [f"-test.skip={asked.skip}"] * bool(asked.skip)
    command = [*build.go_command(), "tool", "test2json", "-t", *tests]
    with log.open("w") as copy:
        process = subprocess.Popen(
            command,
            cwd=binary.path.parent,
            env=environment(asked, state),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            read(_copied(process.stdout, copy), results, suites.prefix(binary.package))
        finally:
            end(process)


def log_file(folder: Path, package: str, scheduler: SchedulerName) -> Path:
    """Return where the events of a package's tests with a scheduler are kept."""
    return folder / f"{package.replace('/', '-')}-{scheduler}.jsonl"


def read(lines: Iterable[str], results: dict[str, UpstreamResult], prefix: str = "", *, tell: bool = True) -> None:
    """Read the events of `go tool test2json`; `prefix` comes before each name; `tell` on stderr how each ends."""
    for line in lines:
        event = _event(line)
        if "Test" not in event:
            continue
        name = prefix + event["Test"]
        result = results.setdefault(name, UpstreamResult(name))
        action = event["Action"]
        if action == "output":
            result.lines = [*result.lines, event["Output"]][-KEPT_LINES:]
        elif action in {"pass", "fail", "skip"}:
            result.outcome, result.seconds = action, event.get("Elapsed", 0.0)
            if tell:
                print(f"  {result.outcome} {result.name} ({result.seconds:.1f} s)", file=sys.stderr, flush=True)


def telling(results: dict[str, UpstreamResult]) -> dict[str, UpstreamResult]:
    """Leave out a test that has sub-tests, unless it fails and none of them does."""
    children: dict[str, list[UpstreamResult]] = defaultdict(list)
    for result in results.values():
        parent = result.name.rpartition("/")[0]
        children[parent].append(result)
    return {
        name: result
        for name, result in results.items()
        if name not in children or (_bad(result) and not any(_bad(child) for child in children[name]))
    }


def _bad(result: UpstreamResult) -> bool:
    return result.outcome in {"fail", "unfinished"}


def _event(line: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    return event


def _copied(lines: Iterable[str], log: TextIO) -> Iterator[str]:
    for line in lines:
        log.write(line)
        yield line


def environment(asked: Run, state: Path) -> dict[str, str]:
    """Return the environment of a test binary; schedulers put their files into `state`."""
    environment = {
        **os.environ,
        "PATH": f"{asked.etcd}{os.pathsep}{os.environ['PATH']}",
        "KUBE_INTEGRATION_ETCD_URL": NO_ETCD,
        "PYTHONPATH": str(REPOSITORY),
        # Where the API server of the tests finds its certificates, as under Bazel: the binary knows no absolute path.
        "TEST_SRCDIR": suites.module_cache(),
        "TEST_WORKSPACE": ".",
        "DOVETAIL_UPSTREAM_FOLDER": str(state),
    }
    if asked.scheduler == "Dovetail":
        environment["DOVETAIL_UPSTREAM_SCHEDULER"] = json.dumps([sys.executable, "-m", "e2e.upstream.process"])
    return environment


def end(process: subprocess.Popen[str]) -> None:
    """End the binary with all that it started: none of it outlives the run."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
