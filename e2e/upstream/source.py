"""
The packages of Kubernetes' integration tests as a Go module of ours, with the scheduler's start replaced.

Nothing of upstream is kept in this repository: the packages are copied from the Go module `k8s.io/kubernetes` into the
cache, and `EDITS` puts calls of `go/process.go` into them. All that they import stays in that module, so that the
compiled packages are the control plane's.
"""

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.build import BuildError

SOURCE = Path(__file__).parent / "go"
MODULE = "k8s.io/kubernetes"
OURS = "dovetail/e2e/upstream"
FOLDER = Path("test", "integration")
COPIED = ("dra", "scheduler", "scheduler_perf", "util")
IMPORTED = re.compile(rf'"{MODULE}/{FOLDER.as_posix()}/({"|".join(COPIED)})\b')
UTIL = "util/util.go"
STEPS = "scheduler/podgroup/stepsframework"
PERF = "scheduler_perf"
ADDED = {"process.go": "util", "message.go": "dra"}
"""Our files, each with the package that it becomes part of."""
ADDED_SINCE_137 = {"steps.go": STEPS, "beside.go": "util", "count.go": PERF}
COMPARED = re.compile(r'gomega\.Equal\((?=(fmt\.Sprintf\()?"0/8 nodes are available: )')
"""Where a test of `dra` compares a pod's condition with kube-scheduler's message."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines that go behind (`after`) or before each line of a file that matches; `count` lines have to."""

    file: str
    line: re.Pattern[str]
    lines: str
    after: bool = False
    count: int = 1


QUEUE_IS_EMPTY = Edit(
    "scheduler/filters/filters_test.go",
    re.compile(r"^\t{3}// Make sure pending queue is empty\.$", re.MULTILINE),
    "\t\t\tif testutils.IsProcess() {\n\t\t\t\treturn\n\t\t\t}\n",
)
"""What is left out is asked of the built-in scheduler's queue, once the pod is bound."""


def _with_feature(file: str, case: str, field: str) -> Edit:
    """Run the cases that do not use a feature with it on: without it they emulate a release that has no DRA."""
    return Edit(
        file,
        re.compile(rf"^\t{{3}}if !{case}\.{field} \{{$", re.MULTILINE),
        f"\t\t\tif testutils.IsProcess() {{\n\t\t\t\t{case}.{field} = true\n\t\t\t}}\n",
    )


WITH_FEATURES = tuple(
    _with_feature(file, "tt", "enableNodeInclusionPolicy")
    for file in ("scheduler/filters/filters_test.go", "scheduler/scoring/priorities_test.go")
)


def edits(minor: str) -> tuple[Edit, ...]:
    """Return the edits for a minor release such as `1.37`."""
    if minor == "1.36":
        keys = _with_feature("scheduler/filters/filters_test.go", "test", "enableMatchLabelKeysInAffinity")
        return (*_edits_of_util("NextPod"), QUEUE_IS_EMPTY, *WITH_FEATURES, keys)
    return (
        *_edits_of_util("NextEntity"),
        QUEUE_IS_EMPTY,
        *WITH_FEATURES,
        Edit(
            "scheduler/preemption/podgroup/podgrouppreemption_test.go",
            re.compile(r"^\t{3}for _, podName := range tt\.expectedToHaveNNNInfo \{$", re.MULTILINE),
            "\t\t\t\tif testutils.IsProcess() {\n\t\t\t\t\tbreak\n\t\t\t\t}\n",
            after=True,
            count=2,
        ),
        Edit(
            f"{STEPS}/stepsframework.go",
            re.compile(r"^\tfor i, step := range steps \{$", re.MULTILINE),
            "\t\tif testutils.IsProcess() {\n\t\t\tstep = seenFromOutside(testCtx, t, ns, step)\n\t\t}\n",
            after=True,
        ),
        Edit(
            UTIL,
            re.compile(r"^func StartSchedulerWithDone\(tCtx .*, outOfTreePluginRegistry .*\{$", re.MULTILINE),
            "\tif IsProcess() {\n\t\treturn startMeasured(tCtx, cfg, outOfTreePluginRegistry)\n\t}\n",
            after=True,
        ),
        Edit(
            f"{PERF}/scheduler_perf.go",
            re.compile(r"^func getTestCases\(path string\) .*\{$", re.MULTILINE),
            "\tpath = chosenWorkloads(path)\n",
            after=True,
        ),
    )


def _edits_of_util(next_function: str) -> tuple[Edit, ...]:
    return (
        Edit(
            UTIL,
            re.compile(r"^func StartScheduler\(tCtx .*, outOfTreePluginRegistry .*\{$", re.MULTILINE),
            "\tif IsProcess() {\n\t\treturn nil, startConfigured(tCtx, cfg, outOfTreePluginRegistry)\n\t}\n",
            after=True,
        ),
        Edit(
            UTIL,
            re.compile(r"^\ttestCtx\.SchedulerCloseFn = func\(\) \{$", re.MULTILINE),
            f"\tif IsProcess() {{\n\t\ttakeNothing(ctx, &testCtx.Scheduler.{next_function})\n"
            "\t\tdefer startBeside(ctx, t, testCtx)\n\t}\n",
        ),
    )


def inputs(minor: str) -> tuple[Path, ...]:
    """Return the files that decide what is written."""
    return (Path(__file__), *(SOURCE / name for name in added(minor)), SOURCE / f"{minor}.mod", SOURCE / f"{minor}.sum")


def added(minor: str) -> dict[str, str]:
    """Return our files for a minor release, each with the package that it becomes part of."""
    return ADDED if minor == "1.36" else {**ADDED, **ADDED_SINCE_137}


def write(go: Sequence[str], environment: dict[str, str], minor: str, target: Path) -> None:
    """Write the module for a minor release into an empty folder. Raises BuildError."""
    for suffix in ("mod", "sum"):
        (target / f"go.{suffix}").write_text((SOURCE / f"{minor}.{suffix}").read_text())
    upstream = _module_folder(go, environment, target)
    for name in COPIED:
        _copy(upstream / FOLDER / name, target / name)
    for name, package in added(minor).items():
        (target / package / name).write_text((SOURCE / name).read_text())
    for edit in edits(minor):
        path = target / edit.file
        path.write_text(edited(path.read_text(), edit))


def edited(text: str, edit: Edit) -> str:
    """Apply an edit. Raises BuildError where more or fewer lines match."""
    changed, found = edit.line.subn(lambda line: _beside(line[0], edit), text)
    if found != edit.count:
        raise BuildError(f"{edit.file} of {MODULE} has {found} lines like {edit.line.pattern}, not {edit.count}")
    return changed


def _beside(line: str, edit: Edit) -> str:
    return f"{line}\n{edit.lines}".removesuffix("\n") if edit.after else f"{edit.lines}{line}"


def _module_folder(go: Sequence[str], environment: dict[str, str], target: Path) -> Path:
    command = [*go, "mod", "download", "-json", MODULE]
    done = subprocess.run(command, cwd=target, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)} in {target}: {done.stderr.strip()}")
    return Path(json.loads(done.stdout)["Dir"])


def _copy(source: Path, target: Path) -> None:
    for path in sorted(path for path in source.rglob("*") if path.suffix in {".go", ".yaml"}):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = IMPORTED.sub(rf'"{OURS}/\1', path.read_text())
        copy.write_text(COMPARED.sub("beginsLike(", text) if target.name == "dra" else text)
