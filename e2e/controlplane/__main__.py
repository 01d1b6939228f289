"""`make controlplane`: a control plane for a person to try things on, until Ctrl-C."""

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

import yaml

from e2e.controlplane import versions
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import REPOSITORY, ControlPlane
from e2e.controlplane.processes import ComponentError
from e2e.fleet import fleets, publish
from e2e.patient_leader import PATIENT_LEADER

CHECK_SECONDS = 1.0
_NAMESPACE = "dovetail-system"
"""Where a scheduler outside of the cluster has its Lease."""
_API = "127.0.0.1:8443"
"""Where the scheduler that is started by hand serves its API."""


def main() -> None:
    """Start, say how to use it, and stay until told to end or until a component ends."""
    arguments = _arguments()
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell's background job inherits it as ignored
        signal.signal(number, _interrupt)
    print("starting the control plane …", file=sys.stderr, flush=True)
    try:
        with ControlPlane.start(
            kubernetes=arguments.kubernetes,
            feature_gates=arguments.gates,
            kube_scheduler=arguments.kube_scheduler,
            kubelet=not arguments.without_kubelet,
            folder=arguments.keep,
        ) as plane:
            if arguments.examples:
                publish.publish_to(plane.kubeconfig, fleets.demo_fleet())
                plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
                for kind in sorted((REPOSITORY / "deploy" / "components").glob("*/crd.yaml")):
                    plane.kubectl("apply", "--server-side", "-f", str(kind))
            print(_usage(plane, has_nodes=arguments.examples), flush=True)
            while True:
                for component in plane.components.values():
                    component.check()
                time.sleep(CHECK_SECONDS)
    except KeyboardInterrupt:
        print("\nended", file=sys.stderr)
    except (BuildError, ComponentError) as error:
        sys.exit(str(error))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.controlplane", description=__doc__)
    parser.add_argument("--kubernetes", choices=versions.SUPPORTED, help=f"its version (default {versions.DEFAULT})")
    parser.add_argument("--gates", choices=("on", "defaults"), default="on", help="every DRA feature, or as shipped")
    parser.add_argument("--kube-scheduler", action="store_true", help="start the peer too; it serves default-scheduler")
    parser.add_argument("--without-kubelet", action="store_true", help="leave bound pods alone")
    parser.add_argument(
        "--examples",
        action="store_true",
        help="create nodes and devices for examples/, and Dovetail's kinds",
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="put state and logs there and leave them at the end")
    return parser.parse_args()


def _usage(plane: ControlPlane, *, has_nodes: bool) -> str:
    nodes = (
        "It has nodes with devices, for the files in examples/; their pods name the scheduler dovetail. "
        "Start it with its API:\n\n"
        f"  .venv/bin/dovetail run --config={_with_api(plane.folder)} --log-format=console\n\n"
        f"and ask it (without --server a command reads the API server):\n\n"
        f"  .venv/bin/dovetail free --server=http://{_API}"
        if has_nodes
        else "It has no nodes yet: start it with --examples, or create Node objects and patch their status."
    )
    return f"""
The control plane of Kubernetes {plane.kubernetes} is up: {plane.server} ({", ".join(plane.components)})

  export KUBECONFIG={plane.kubeconfig}
  {plane.kubectl_binary} get nodes

{nodes}

Logs are in {plane.folder}.
Ctrl-C ends everything."""


def _with_api(folder: Path) -> Path:
    """Write a configuration that switches on the API of the scheduler, for this machine."""
    path = folder / "dovetail.yaml"
    head = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
    path.write_text(yaml.safe_dump({**head, "api": {"bindAddress": _API}, "leaderElection": PATIENT_LEADER}))
    return path


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
