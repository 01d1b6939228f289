"""Questions about manifests: in a process with limits, one at a time, and never on the server's event loop."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.api.refusals import Refusal
from scheduler.page import fit_questions
from scheduler.page.fit_questions import FitQuestion, FitQuestions, FitSource
from scheduler.settings import parse
from scheduler.visibility import VisibleNamespaces
from scheduler.worker import child, fork_server
from tests.support import manifests as m
from tests.support.controlplane import wait_until

ANSWERS = """import sys; sys.stdin.buffer.read(); print('{"kind": "Fit", "fits": true}')"""
FAILS = """print('{"kind": "FitFailure", "message": "no such file"}')"""


def question(content: bytes = b"", **source: Any) -> FitQuestion:
    return FitQuestion(
        source=FitSource(**source),
        content=content,
        namespace="default",
        wanted=None,
        namespaces=VisibleNamespaces(everything=True),
        sees_nodes=True,
    )


def running(script: str) -> FitQuestions:
    """Questions to a process that runs a script instead."""
    return FitQuestions(FitSource(), (sys.executable, "-c", script))


async def refused(questions: FitQuestions, caller: str = "") -> Refusal:
    with pytest.raises(Refusal) as found:
        await questions.ask(caller, question())
    return found.value


async def test_the_answer_of_the_process_comes_as_it_is() -> None:
    assert json.loads(bytes(await running(ANSWERS).ask("", question()))) == {"kind": "Fit", "fits": True}


async def test_a_failure_says_why() -> None:
    refusal = await refused(running(FAILS))
    assert (refusal.status, str(refusal)) == (503, "no such file")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (f"raise SystemExit({child.NO_MEMORY})", "needs more memory than solver.memoryLimitMiB"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGALRM)", "there is no answer within 60 seconds"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "there is no answer within 60 seconds"),
        ("import os; os.abort()", "has ended (status -6)"),
    ],
    ids=["memory", "wall time", "CPU time", "crash"],
)
async def test_a_process_that_ends_is_a_refusal(script: str, message: str) -> None:
    refusal = await refused(running(script))
    assert refusal.status == 503
    assert message in str(refusal)


async def test_a_process_that_does_not_limit_itself_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[asyncio.subprocess.Process]()
    start = asyncio.create_subprocess_exec

    async def noted(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*command, **options))
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    monkeypatch.setattr(fit_questions, "SECONDS", 0.0)
    monkeypatch.setattr(fit_questions, "_START_SECONDS", 0.1)
    assert "there is no answer within" in str(await refused(running("import time; time.sleep(600)")))
    assert [each.returncode for each in started] == [-signal.SIGKILL]


class Gate:
    """Processes that answer once a file is there, and say when they began."""

    def __init__(self, folder: Path) -> None:
        self.file, self.log = folder / "open", folder / "log"
        self.log.touch()
        script = (
            f"import pathlib, time, sys; open({str(self.log)!r}, 'a').write('+')\n"
            f"while not pathlib.Path({str(self.file)!r}).exists(): time.sleep(0.01)\n"
            f"open({str(self.log)!r}, 'a').write('-'); {ANSWERS}"
        )
        self.questions = running(script)

    async def begun(self) -> None:
        await asyncio.to_thread(wait_until, lambda: bool(self.log.read_text()))


async def test_one_is_answered_at_a_time_and_each_caller_has_one(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    asked = [asyncio.create_task(gate.questions.ask(caller, question())) for caller in ("a", "b", "c")]
    await gate.begun()
    assert (await refused(gate.questions, "a")).status == 429
    assert "before this one" in str(await refused(gate.questions, "b"))
    gate.file.touch()
    await asyncio.gather(*asked)
    assert gate.log.read_text() == "+-+-+-"
    await gate.questions.ask("a", question())


async def test_few_wait_and_not_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_questions, "_MOST_WAITING", 2)
    monkeypatch.setattr(fit_questions, "_PATIENCE_SECONDS", 0.1)
    gate = Gate(tmp_path)
    first = asyncio.create_task(gate.questions.ask("a", question()))
    await gate.begun()
    second = asyncio.create_task(refused(gate.questions, "b"))
    await asyncio.sleep(0)
    assert "too many questions" in str(await refused(gate.questions, "c"))
    assert "other questions are being answered" in str(await second)
    gate.file.touch()
    await first


async def test_a_server_that_ends_leaves_no_process(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    asked = asyncio.create_task(gate.questions.ask("a", question()))
    await gate.begun()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    gate.file.touch()
    await gate.questions.ask("a", question())
    assert gate.log.read_text() == "++-"


def test_the_namespaces_that_a_text_names() -> None:
    text = b'namespace: one\n{"namespace":"two", "namespace" : "one"} namespace: \'three\'\nnamespaces: [four]'
    assert fit_questions.named_namespaces(text) == ("one", "two", "three")
    assert len(fit_questions.named_namespaces(b"".join(b"namespace: n%d\n" % each for each in range(1000)))) == 50


class TestTheProcess:
    """The process itself, as the server starts it."""

    @pytest.fixture
    def cluster(self, tmp_path: Path) -> str:
        return str(m.write_json(tmp_path / "cluster.json", [m.device_class(), m.template(), m.node(), m.slice_of()]))

    async def test_it_answers(self, cluster: str) -> None:
        content = yaml.safe_dump_all([m.template(), m.pod("new", template_name="t")]).encode()
        found = json.loads(bytes(await FitQuestions(FitSource()).ask("", question(content, files=(cluster,)))))
        assert (found["kind"], found["fits"], found["placements"][0]["node"]) == ("Fit", True, "n1")

    async def test_its_limits_are_those_of_the_kernel(self, cluster: str) -> None:
        """Memory beyond solver.memoryLimitMiB is refused to whatever runs in it: here to a text of many mappings."""
        head = "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"
        settings = parse(f"{head}solver: {{memoryLimitMiB: 256}}\n", "test")
        content = b'{"a":[' + b"{}," * 8_000_000 + b"{}]}"
        with pytest.raises(Refusal, match="needs more memory than solver"):
            await FitQuestions(FitSource()).ask("", question(content, files=(cluster,), settings=settings))

    async def test_it_ends_with_the_server(self) -> None:
        command = (*fit_questions.COMMAND, str(os.getpid() + 1))  # its parent is another one
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        written, _ = await process.communicate(b"")
        assert (process.returncode, written) == (0, b"")


@pytest.mark.parametrize("command", [fit_questions.COMMAND, fork_server.COMMAND])
def test_modules_of_the_folder_of_the_caller_are_not_imported(command: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "scheduler").mkdir()
    (tmp_path / "scheduler" / "__init__.py").write_text("print('foreign')", encoding="utf-8")
    ended = subprocess.run(
        [*command, "not-a-number"], cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert ("foreign" in ended.stdout, "not-a-number" in ended.stderr) == (False, True)
