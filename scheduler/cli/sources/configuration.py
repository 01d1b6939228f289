"""Which configuration a command goes by: that of `--config`, of the running scheduler, or the defaults."""

import argparse
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler import NAMESPACE
from scheduler.cli.arguments import add_cluster, add_config, warn
from scheduler.cli.sources.object_names import complete_names

if TYPE_CHECKING:  # these take a second to import
    from collections.abc import Iterable

    from scheduler.cli.sources.running_configuration import RunningConfigurations
    from scheduler.kube.access import ClusterAccess
    from scheduler.settings import Settings
    from scheduler.settings.scheduler_names import Serving
    from scheduler.status.leader_lease import ToldReservations
    from solver.domain import NodeReservation, Pod

_INSTEAD: Final = (
    "The answer goes by Dovetail's defaults: a device may belong to another scheduler (devices.owned). Give the "
    "configuration with --config FILE"
)


class Configuration(NamedTuple):
    """
    Settings; `is_known` says that the scheduler that runs has them, as far as one runs.

    `runs_nowhere` is the namespace in which no scheduler was found, "" where one runs or none was looked for.
    `unknown_leader` is a process that leads outside of the cluster, by a configuration that is not known. `is_paused`
    says that `dovetail pause` has stopped all replicas, wherever they are.
    `scheduler_names` are those that a Dovetail serves; None: not all are known.
    """

    settings: "Settings"
    is_known: bool = True
    runs_nowhere: str = ""
    unknown_leader: str = ""
    is_paused: bool = False
    scheduler_names: frozenset[str] | None = None

    @property
    def idle(self) -> str:
        """Why no pod is placed now, and what an answer supposes; "" where a scheduler decides."""
        from scheduler.settings import scheduler_names  # noqa: PLC0415 - the settings take a second to import

        if self.is_paused:
            return scheduler_names.PAUSED
        return scheduler_names.NO_SCHEDULER if self.runs_nowhere else ""

    def warn_of_no_scheduler(self) -> None:
        """Say that no pod will start whatever the answer is, before it: for commands about pods that wait."""
        if self.unknown_leader:
            warn(f"{self.unknown_leader} leads outside of the cluster; its configuration is not known: give --config")
        if self.is_paused:
            warn("Dovetail is paused, so no pod is placed now: this is what it would do. `dovetail resume` ends that")
        elif self.runs_nowhere:
            warn(
                f"no Dovetail runs in namespace {self.runs_nowhere}, so no pod is placed now: this is what one with "
                "the defaults would do. If it runs elsewhere, give --dovetail-namespace, or --config with its file"
            )

    def served(self, scheduler_name: str | None) -> "tuple[str, Settings]":
        """Return a scheduler name (default: that of the first profile), and the settings with a profile for it."""
        from scheduler.settings import served  # noqa: PLC0415 - the settings take a second to import

        return served(self.settings, scheduler_name or "")

    def serving(self, named: str, chosen: str | None = None, *, is_picked_up: bool = False) -> "Serving":
        """
        Say who decides about pods that name a scheduler: the one that serves them, or is meant by their name.

        With a `chosen` one that decides, whoever serves it. A pod with a condition `is_picked_up`: where no Dovetail
        runs in the cluster, one outside of it may serve the name.
        """
        from scheduler.settings import scheduler_names  # noqa: PLC0415 - as above

        name = chosen or named
        known = None if is_picked_up and self.runs_nowhere else self.scheduler_names
        found = scheduler_names.serving(self.settings, name, known or (), is_certain=not self.runs_nowhere)
        if not (found.unserved and chosen):
            return found
        warn(f"{found.unserved}. The answer is what a scheduler with that name would decide")
        return scheduler_names.Serving(*self.served(name))


def add_configured_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the options of a cluster, and those that choose the configuration."""
    add_cluster(parser)
    add_config(parser, "that of the running scheduler")
    add_dovetail_namespace(parser, "namespace of the running scheduler, whose configuration counts without --config")


def add_dovetail_namespace(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--dovetail-namespace`; `what` says in words what it is the namespace of."""
    action = parser.add_argument(
        "--dovetail-namespace", default=NAMESPACE, metavar="NAMESPACE", help=f"{what} (default: %(default)s)"
    )
    complete_names(action, "namespace")


class ConfigurationReader:
    """The configuration that a command goes by; what the cluster says of it can be read beside other things."""

    def __init__(self, options: argparse.Namespace, access: "ClusterAccess | None") -> None:
        """Without `access` no cluster is asked."""
        self._options = options
        self._access = access
        self._read: RunningConfigurations | None = None
        self._chosen: Configuration | None = None
        self._reservations_problem = ""
        self._said = set[str]()

    @property
    def is_known(self) -> bool:
        """Whether an answer goes by the chosen configuration, and by all reserved nodes where they were asked for."""
        return not self._reservations_problem and (self._chosen is None or self._chosen.is_known)

    def read(self) -> None:
        """Read the configurations of the running schedulers where they count. Raise `KubeError`."""
        if self._options.config or self._access is None or self._read is not None:
            return
        from scheduler.cli.sources import running_configuration  # noqa: PLC0415 - the cluster's client takes a while to import

        self._read = running_configuration.read(self._access, self._options.dovetail_namespace)

    def chosen(self, scheduler_name: str | None = None) -> Configuration:
        """
        Return the configuration of the scheduler with a name.

        Print a warning for each deprecated key, and once for a scheduler whose configuration cannot be read. Raise
        `SettingsError` and `KubeError`.
        """
        from scheduler.settings import load  # noqa: PLC0415 - as above

        self.read()
        if self._read is None:
            settings = load(self._options.config, warn=warn)
            self._chosen = Configuration(settings, scheduler_names=settings.scheduler_names)
            return self._chosen
        read = self._read
        settings, problems = read.chosen(scheduler_name or "")
        for problem in (each for each in problems if each not in self._said):
            warn(f"{problem}. {_INSTEAD}")
        self._said |= {*problems}
        runs = bool(read.found or problems or (read.lease is not None and read.lease.is_renewed))
        self._chosen = Configuration(
            settings,
            is_known=not (problems or read.unknown_leader),
            runs_nowhere="" if runs else self._options.dovetail_namespace,
            unknown_leader=read.unknown_leader,
            is_paused=read.lease is not None and read.lease.is_drained,
            scheduler_names=read.scheduler_names,
        )
        return self._chosen

    def reservations(self, pods: "Iterable[Pod]") -> "tuple[NodeReservation, ...]":
        """
        Return the nodes that the leader has reserved for starving pods among these, once the configuration is chosen.

        Print a warning where they are not all known.
        """
        told = self._told()
        return told.of(pods) if told is not None else ()

    def reserved_nodes(self) -> frozenset[str] | None:
        """
        Return the nodes whose devices are reserved, as the leader says now; None where the Lease cannot be read.

        Print a warning where they are not all known, the first time.
        """
        told = self._told()
        return told.device_nodes if told is not None else frozenset()

    def _told(self) -> "ToldReservations | None":
        """Ask the leader of the chosen configuration; None where no cluster is asked, or nobody leads."""
        if self._access is None or self._chosen is None or self._chosen.runs_nowhere:
            return None
        from scheduler.status import leader_lease  # noqa: PLC0415 - as above

        if self._read is not None and self._read.lease is not None:
            told = leader_lease.reservations_in(self._read.lease)
            self._read = self._read._replace(lease=None)  # the next question reads it again
        else:
            election = self._chosen.settings.leader_election
            told = leader_lease.told_reservations(self._access, self._options.dovetail_namespace, election)
        if told.problem and not self._reservations_problem:
            warn(told.problem)
        self._reservations_problem = self._reservations_problem or told.problem
        return told


def configuration(
    options: argparse.Namespace, access: "ClusterAccess | None", scheduler_name: str | None = None
) -> Configuration:
    """Read and return the configuration of the scheduler with a name, as `ConfigurationReader`."""
    return ConfigurationReader(options, access).chosen(scheduler_name)
