"""`dovetail report`: what `dovetail observe` has found, as one HTML page or as JSON."""

import argparse
import sys
from pathlib import Path
from typing import Final

from scheduler.cli.adoption import RECORD
from scheduler.cli.arguments import UsageError
from scheduler.cli.exit_status import ExitStatus

_HTML: Final = "html"
_JSON: Final = "json"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "The page loads nothing from elsewhere: `dovetail report > report.html`, and open it in a browser. It has "
        "names of pods, gangs and namespaces. Exit status: 0 the report was written, 2 the record cannot be read."
    )
    parser.add_argument(
        "--record",
        type=Path,
        default=RECORD,
        metavar="FILE",
        help="file that `dovetail observe` writes or has written (default: %(default)s)",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=(_HTML, _JSON),
        default=_HTML,
        help="the page, or the document (default: html)",
    )


def execute(options: argparse.Namespace) -> int:
    """Read the record, and write the report."""
    if options.output == _HTML and sys.stdout.isatty():
        raise UsageError("the page is for a browser: write `dovetail report > report.html`")
    from scheduler.counterfactual import observation_report  # noqa: PLC0415 - it imports the solver
    from scheduler.counterfactual.observation_record import RecordError, RecordReader  # noqa: PLC0415 - as above
    from scheduler.page import report_page  # noqa: PLC0415 - as above
    from scheduler.simulation import printing  # noqa: PLC0415 - as above

    reader = RecordReader(options.record)
    try:
        found = observation_report.report_of(reader)
    except RecordError as error:
        raise UsageError(f"--record: {error}") from error
    if options.output == _JSON:
        sys.stdout.write(printing.text(observation_report.KIND, found, "json"))
    else:
        sys.stdout.write(report_page.page(found))
    return ExitStatus.OK
