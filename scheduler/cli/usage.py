"""`dovetail usage`: for how long devices were in use and idle."""

import argparse
import sys
from typing import TYPE_CHECKING, Final

from scheduler.cli.arguments import WIDE, add_cluster, add_format, cluster_access
from scheduler.cli.sources.running_scheduler import API_IS_OFF, add_scheduler, add_since, ask, ended, print_document

if TYPE_CHECKING:
    from scheduler.api.usage_answers import UsageAnswer

_HOUR: Final = 3600
_WHOLE: Final = 0.99
"""From this part on the time of classes counts as all of it."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "The running scheduler answers, from what it has seen since it leads, for at most `history.usageHours`. "
        f"{API_IS_OFF} Exit status: 0 the answer was printed, 2 the scheduler cannot be asked, 3 the answer leaves "
        "something out that you may not list."
    )
    parser.add_argument(
        "--by",
        choices=("namespace", "label", "class"),
        default="namespace",
        help="what is summed up (default: namespace)",
    )
    parser.add_argument("-n", "--namespace", default="", metavar="NAMESPACE", help="one namespace (default: all)")
    add_since(parser, "1d")
    add_scheduler(parser)
    add_cluster(parser)
    add_format(parser, has_wide=True)


def execute(options: argparse.Namespace) -> int:
    """Ask and print."""
    parameters = {"namespace": options.namespace, "by": options.by, "since": str(options.since), "limit": "1000"}
    access = cluster_access(options)
    answer = ask(options, access, "usage", parameters, _answer)
    if options.namespace and not answer.items:
        from scheduler.cli.sources import absent_objects  # noqa: PLC0415 - the solver's values take a while to import

        absent_objects.refuse_missing_namespace(options.namespace, access)
    if not print_document(answer, options.output):
        _show(answer, is_wide=options.output == WIDE)
    return ended(answer.hidden)


def _answer() -> "type[UsageAnswer]":
    """Import the type of the answer, and what prints it."""
    from scheduler.api.usage_answers import UsageAnswer  # noqa: PLC0415 - the solver's values take a while to import
    from scheduler.simulation import list_table  # noqa: F401, PLC0415 - as above

    return UsageAnswer


def _show(answer: "UsageAnswer", *, is_wide: bool) -> None:
    from scheduler.simulation import list_table  # noqa: PLC0415 - as above

    column = list_table.ListColumn
    numbers = ("DEVICE-HOURS", "AVERAGE DEVICES")
    used = (column(answer.by.upper(), is_copied=True), column("DRIVER"))
    sys.stdout.write(f"From {answer.begin:%Y-%m-%dT%H:%M:%SZ} to {answer.end:%Y-%m-%dT%H:%M:%SZ}\n\n")
    list_table.show(
        (*used, *(column(head, is_number=True) for head in numbers)),
        [
            (each.name or "(none)", each.driver, f"{each.device_hours:.2f}", f"{each.devices:.2f}")
            for each in answer.items
        ],
        sys.stdout,
        is_wide=is_wide,
    )
    if not answer.drivers:
        return
    sys.stdout.write("\n")
    heads = ("AVERAGE DEVICES", "HOURS IN USE", "HOURS IDLE", "IN USE")
    rows = [("(all)", each) for each in answer.drivers] + [(each.device_class, each) for each in answer.classes]
    list_table.show(
        (column("CLASS", is_copied=True), column("DRIVER"), *(column(head, is_number=True) for head in heads)),
        [
            (
                name,
                each.driver,
                f"{each.devices:.2f}",
                f"{each.held_device_hours:.2f}",
                f"{each.idle_device_hours:.2f}",
                _share(each.held_device_hours, each.idle_device_hours),
            )
            for name, each in rows
        ],
        sys.stdout,
        is_wide=is_wide,
    )
    hours = (answer.end - answer.begin).total_seconds() / _HOUR
    if answer.classes and answer.class_hours < _WHOLE * hours:
        known = f"{answer.class_hours:.2f} of {hours:.2f} hours"
        note = f"The rows of classes are about {known}: before, their devices had not been counted."
        list_table.write(["", note], sys.stdout)


def _share(held: float, idle: float) -> str:
    return f"{100 * held / (held + idle):.0f}%" if held + idle else ""
