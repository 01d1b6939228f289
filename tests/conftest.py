"""What every test has: the control plane's fixtures (started only when one is asked for) and hypothesis' profiles."""

import atexit
import os
import shutil
import tempfile

import pytest
from hypothesis import settings

from e2e.controlplane import versions

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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of what the chosen Kubernetes does not have: `pytest.mark.kubernetes(since="1.37")`."""
    minor = versions.minor(versions.chosen())
    new = [
        item
        for item in items
        if (mark := item.get_closest_marker("kubernetes")) and minor < versions.minor(mark.kwargs["since"])
    ]
    config.hook.pytest_deselected(items=new)
    items[:] = [item for item in items if item not in new]
