"""`dovetail check`: whether Dovetail can work in a cluster, before and after it is installed."""

import argparse
import datetime as dt
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from scheduler.cli.arguments import (
    TABLE,
    UsageError,
    add_format,
    add_namespace,
    cluster_access,
    namespace_of,
)
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import Configuration, add_configured_cluster, configuration
from scheduler.cli.sources.object_names import complete_names

if TYPE_CHECKING:
    from scheduler.installation.installation_checks import CheckLine
    from scheduler.installation.trial_pod import TrialStep
    from scheduler.kube.access import ClusterAccess

_TIMEOUT_SECONDS: Final = 60.0
_IMAGE: Final = "registry.k8s.io/pause:3.10"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Nothing is written to the cluster without --test-pod; what that makes is removed, also after Ctrl-C. Exit "
        "status: 0 no check has failed, 1 one has, 2 the API server cannot be asked."
    )
    add_namespace(parser, "the test pod")
    add_configured_cluster(parser)
    parser.add_argument(
        "--test-pod", action="store_true", help="create a pod with a claim, wait until it runs, and remove both"
    )
    action = parser.add_argument(
        "--class",
        dest="device_class",
        metavar="NAME",
        help="DeviceClass of the test pod's device (default: the first with a free device)",
    )
    complete_names(action, "deviceclass")
    parser.add_argument(
        "--image",
        default=_IMAGE,
        metavar="IMAGE",
        help="image of the test pod, which only waits (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="how long the test pod may take to run (default: %(default)s)",
    )
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Check, and print each line as soon as it is known."""
    if not options.timeout > 0:
        raise UsageError(f"--timeout {options.timeout:g}: write a number of seconds above 0")
    access = cluster_access(options)
    configured = configuration(options, access)
    from scheduler.installation.installation_checks import CheckResult  # noqa: PLC0415 - it takes a second to import

    found: list[CheckLine] = []

    def tell(lines: "Iterable[CheckLine]") -> None:
        for line in lines:
            found.append(line)
            if options.output == TABLE:
                from scheduler.installation import check_output  # noqa: PLC0415 - as above

                check_output.show_line(line, sys.stdout)

    checks = _Checks(options, access, configured)
    tell(checks.server())
    if checks.serves:
        tell(checks.cluster())
    if options.test_pod and checks.serves:
        import asyncio  # noqa: PLC0415 - completion needs none of it

        try:
            checks.try_pod(tell)
        except asyncio.CancelledError:
            return ExitStatus.INTERRUPTED
    if options.output != TABLE:
        from scheduler.simulation import printing  # noqa: PLC0415 - as above

        sys.stdout.write(printing.text("Check", {"checks": found}, options.output))
    has_failed = any(line.result is CheckResult.FAILED for line in found)
    if options.output == TABLE:
        from scheduler.installation import check_output  # noqa: PLC0415 - as above

        check_output.show_end(found, sys.stdout)
    return ExitStatus.NO if has_failed else ExitStatus.OK


class _Checks:
    """The checks of one run, and what later ones need of earlier ones."""

    def __init__(self, options: argparse.Namespace, access: "ClusterAccess", configured: Configuration) -> None:
        self._options: Final = options
        self._access: Final = access
        self._settings: Final = configured.settings
        self._fleet: Any = None
        self._runs = False
        self.serves = False

    def server(self) -> "Iterable[CheckLine]":
        """Check the API server."""
        from scheduler.installation import gate_probes, installation_checks  # noqa: PLC0415 - as above
        from scheduler.kube import discovery  # noqa: PLC0415 - as above
        from scheduler.kube.access import wait_for  # noqa: PLC0415 - as above

        namespace = namespace_of(self._options, self._access)

        async def ask() -> Any:
            async with self._access.connect() as client:
                served = await discovery.discover(client)
                return served, {} if served.problem else await gate_probes.probe(client, namespace)

        served, gates = wait_for(ask())
        self.serves = not served.problem
        return tuple(installation_checks.of_server(served, gates))

    def cluster(self) -> "Iterable[CheckLine]":
        """Check devices, the installation, and what keeps other schedulers apart."""
        from scheduler.installation import cluster_findings, fences, installation_checks, installed_pods  # noqa: PLC0415 - as above
        from scheduler.installation.account_rights import InstallationName  # noqa: PLC0415 - as above
        from scheduler.simulation import fleet_reading  # noqa: PLC0415 - as above

        namespace, election = self._options.dovetail_namespace, self._settings.leader_election
        name = InstallationName(namespace, election.lease_namespace or namespace, election.lease_name)
        seen = installed_pods.read(self._access, name, self._settings.features)
        self._runs = seen.runs or bool(seen.forbidden)
        label = self._settings.metrics.node_group_label
        policy = self._settings.policy(self._settings.profiles[0].scheduler_name)
        self._fleet = fleet_reading.from_cluster(self._access, policy, label, finds_gone_pods=False, reads_pods=True)
        part = cluster_findings.of_cluster(
            self._fleet,
            dt.datetime.now(dt.UTC),
            names=self._settings.scheduler_names,
            class_drivers=seen.class_drivers,
            group_label=label,
            owned=self._settings.owned_devices(),
        )
        yield from installation_checks.of_findings(part.findings)
        yield from installation_checks.of_installation(seen, namespace)
        others = cluster_findings.other_schedulers(self._fleet, self._settings.scheduler_names)
        yield installation_checks.of_fence(fences.has_policy(self._access), tuple(others))

    def try_pod(self, tell: Any) -> None:
        """Make a pod with a claim, and say how far it came."""
        from scheduler.installation import trial_pod  # noqa: PLC0415 - as above
        from scheduler.installation.installation_checks import CheckLine, CheckResult, of_step  # noqa: PLC0415 - as above

        if not self._runs:
            text = f"no scheduler runs in namespace {self._options.dovetail_namespace}"
            tell([CheckLine(CheckResult.FAILED, "test pod", text, "install Dovetail first")])
            return
        device_class = self._options.device_class or self._free_class()
        if not device_class:
            text = "no DeviceClass has a free device that Dovetail may allocate"
            tell([CheckLine(CheckResult.FAILED, "test pod", text, "dovetail free; dovetail devices --problems")])
            return
        trial = trial_pod.TrialPod(
            namespace_of(self._options, self._access),
            self._settings.profiles[0].scheduler_name,
            device_class,
            self._options.image,
            self._options.timeout,
        )

        def say(step: "TrialStep") -> None:
            tell([of_step(step, trial.namespace)])

        trial_pod.run(self._access, trial, say)

    def _free_class(self) -> str:
        """Return the first class, by name, that a free device of Dovetail belongs to; "" where there is none."""
        from solver.domain.fleet import DeviceState  # noqa: PLC0415 - as above

        free = (each for each in self._fleet.fleet.devices if each.state is DeviceState.FREE and not each.problems)
        return min((name for device in free for name in device.classes), default="")
