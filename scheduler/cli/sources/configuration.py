"""Which configuration a command goes by: that of `--config`, of the running scheduler, or the defaults."""

import argparse
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler import NAMESPACE
from scheduler.cli.arguments import add_cluster, add_config, warn

if TYPE_CHECKING:  # these take a second to import
    from scheduler.kube.access import ClusterAccess
    from scheduler.settings import Settings

_INSTEAD: Final = (
    "The answer goes by Dovetail's defaults: a device may belong to another scheduler (devices.owned). Give the "
    "configuration with --config FILE"
)


class Configuration(NamedTuple):
    """Settings; `is_known` says that the scheduler that runs has them, as far as one runs."""

    settings: "Settings"
    is_known: bool = True

    def served(self, scheduler_name: str | None) -> "tuple[str, Settings]":
        """Return a scheduler name (default: that of the first profile), and the settings with a profile for it."""
        from scheduler.settings import served  # noqa: PLC0415 - the settings take a second to import

        return served(self.settings, scheduler_name or "")

    def warn_of_other_scheduler(self, what: str, name: str) -> None:
        """Warn where no profile serves the scheduler that a pod names."""
        from scheduler.settings import unserved  # noqa: PLC0415 - as above

        text = unserved(self.settings, name)
        if text:
            warn(f"{what} has {text}. Correct the schedulerName, or give --config the file that has this profile")


def add_configured_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the options of a cluster, and those that choose the configuration."""
    add_cluster(parser)
    add_config(parser, "that of the running scheduler")
    parser.add_argument(
        "--dovetail-namespace",
        default=NAMESPACE,
        metavar="NAMESPACE",
        help="namespace of the running scheduler, whose configuration counts without --config (default: %(default)s)",
    )


def configuration(
    options: argparse.Namespace, access: "ClusterAccess | None", scheduler_name: str | None = None
) -> Configuration:
    """
    Return the configuration of the scheduler with a name; without `access` no cluster is asked.

    Print a warning for each deprecated key, and for a running scheduler whose configuration cannot be read. Raise
    `SettingsError` and `KubeError`.
    """
    from scheduler.settings import load  # noqa: PLC0415 - as above

    if options.config or access is None:
        return Configuration(load(options.config, warn=warn))
    from scheduler.cli.sources import running_configuration  # noqa: PLC0415 - the cluster's client takes a while to import

    settings, problems = running_configuration.read(access, options.dovetail_namespace).chosen(scheduler_name or "")
    for problem in problems:
        warn(f"{problem}. {_INSTEAD}")
    return Configuration(settings, is_known=not problems)
