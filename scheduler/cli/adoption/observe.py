"""`dovetail observe`: what Dovetail would have done with the pods of another scheduler; it writes nothing."""

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scheduler.cli.adoption import RECORD
from scheduler.cli.arguments import UsageError, add_cluster, add_config, cluster_access, say, warn
from scheduler.cli.exit_status import ExitStatus
from scheduler.observe import terminal

if TYPE_CHECKING:
    from scheduler.counterfactual.observation_record import ObservationRecord
    from scheduler.counterfactual.observer import ObserverOptions
    from scheduler.kube.access import ClusterAccess

_OBSERVED: Final = "default-scheduler"
_SECONDS: Final = 5.0
_MOST_SECONDS: Final = 3600.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "It goes on until it is stopped, and `dovetail report` shows what it has found at any time. Nothing is written "
        "to the cluster. Exit status: 0 it was stopped by Ctrl-C or SIGTERM, 2 arguments are wrong, the record cannot "
        "be written or the cluster cannot be read."
    )
    add_cluster(parser)
    add_config(parser, "the defaults")
    parser.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help=f"observe pods with this spec.schedulerName (default: {_OBSERVED}); may be repeated",
    )
    parser.add_argument(
        "--record",
        type=Path,
        default=RECORD,
        metavar="FILE",
        help="file that the observation is appended to, of at most 64 MiB with FILE.1 (default: %(default)s)",
    )
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=_SECONDS,
        metavar="SECONDS",
        help="time between two decisions (default: %(default)g); every twelfth time a sample is recorded",
    )


def execute(options: argparse.Namespace) -> int:
    """Observe until stopped."""
    import asyncio  # noqa: PLC0415 - completion needs none of it

    access = cluster_access(options)
    from scheduler.counterfactual.observation_record import ObservationRecord, RecordError  # noqa: PLC0415 - as above
    from scheduler.counterfactual.observer import ObserverOptions  # noqa: PLC0415 - it imports the solver
    from scheduler.settings import load  # noqa: PLC0415 - the settings take a second to import

    chosen = ObserverOptions(
        scheduler_names=tuple(dict.fromkeys(options.scheduler_name or (_OBSERVED,))),
        interval=options.interval,
        settings=load(options.config, warn=warn),
        say=say,
        show=_show,
    )
    try:
        with ObservationRecord(options.record) as record:
            _show(f"recording to {options.record}; `dovetail report` shows it, Ctrl-C ends it")
            asyncio.run(_observe(access, chosen, record))
    except RecordError as error:
        raise UsageError(f"--record: {error}") from error
    return ExitStatus.OK


def _show(line: str) -> None:
    sys.stdout.write(f"{terminal.escaped(line)}\n")
    sys.stdout.flush()


async def _observe(access: "ClusterAccess", chosen: "ObserverOptions", record: "ObservationRecord") -> None:
    import asyncio  # noqa: PLC0415 - completion needs none of it

    from scheduler.counterfactual.observer import observe  # noqa: PLC0415 - as above

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with access.connect() as client:
        await observe(client, chosen, record, stop)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0 to {_MOST_SECONDS:.0f}: write 5")
    return seconds
