"""What every test has: the control plane's fixtures (started only when one is asked for) and hypothesis' profiles."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings

from e2e.controlplane import gates, versions

LEFT_OUT = pytest.StashKey[int]()
ON_THE_API_SERVER: Final = "controlplane"
"""The mark of tests on the API server."""

pytest_plugins = ["tests.support.controlplane"]

# No deadline anywhere: the machines are shared, and a slow moment is not a defect.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    # Tests start processes, some of them twice: each would compile every module of ours and of every library again,
    # which takes most of its start and, on a loaded machine, longer than tests wait.
    os.environ["PYTHONPYCACHEPREFIX"] = _bytecode = tempfile.mkdtemp(prefix="dovetail-tests-bytecode-")
    atexit.register(shutil.rmtree, _bytecode, ignore_errors=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m controlplane` import only modules that use the mark, a sixth of all, in each pytest-xdist worker."""
    if config.option.markexpr != ON_THE_API_SERVER or not collection_path.match("test_*.py"):
        return None
    return f"mark.{ON_THE_API_SERVER}" not in collection_path.read_text(encoding="utf-8") or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of what the chosen control plane does not have: `kubernetes(since="1.37", gates=("X",))`."""
    left_out = [item for item in items if not all(map(_is_served, item.iter_markers("kubernetes")))]
    config.hook.pytest_deselected(items=left_out)
    config.stash[LEFT_OUT] = len(left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Give the count of a pytest-xdist worker to the process that prints the summary."""
    output: dict[str, int] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the count of a worker; every worker collects all tests."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many tests the chosen control plane has no features for."""
    if count := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"{count} tests left out: Kubernetes {versions.chosen()}, gates {gates.chosen()}")


def _is_served(mark: pytest.Mark) -> bool:
    kubernetes, mode = versions.chosen(), gates.chosen()
    return versions.minor(kubernetes) >= versions.minor(mark.kwargs.get("since", versions.OLDEST)) and all(
        gates.has_gate(name, mode, kubernetes) for name in mark.kwargs.get("gates", ())
    )
