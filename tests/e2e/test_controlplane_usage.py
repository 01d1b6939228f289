"""What `make controlplane ARGS=--examples` tells a person to start: a scheduler that the other commands can see."""

import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from e2e.controlplane.__main__ import _usage
from e2e.controlplane.plane import ControlPlane
from scheduler.cli.main import parser_of_line
from scheduler.settings import load


def test_the_scheduler_that_is_started_by_hand_leads(tmp_path: Path) -> None:
    plane = SimpleNamespace(
        kubernetes="1.37",
        server="https://here",
        components={},
        kubeconfig="k",
        kubectl_binary="kubectl",
        folder=tmp_path,
    )
    shown = _usage(cast("ControlPlane", plane), has_nodes=True)
    (command,) = re.findall(r"bin/dovetail (run .*)", shown)
    options = parser_of_line(command).parse_args(shlex.split(command))
    assert options.leader_elect is not False
    assert load(options.config).leader_election.enabled
