"""`dovetail simulate`: the plan for manifests, or for a live cluster, without writing anything."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from scheduler.settings import Overrides, Settings, load

WRONG: Final = 2
_FORMATS: Final = ("table", "json", "yaml")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Say where pods would go, with which devices, or why they would wait; nothing is written to a cluster."
    parser = commands.add_parser(
        "simulate",
        help=text,
        description=text,
        epilog="Exit status: 0 all pods are placed, 1 some are not, 2 a manifest is wrong or cannot be read "
        "(the plan of the others is printed all the same).",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE_OR_DIR",
        help="manifests in YAML or JSON, a folder of them, or - for standard input; may be given several times",
    )
    parser.add_argument(
        "--from-cluster",
        action="store_true",
        help="take the live cluster's objects (they are only read); manifests of the same name replace them",
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="how to reach the cluster (default $KUBECONFIG)"
    )
    parser.add_argument(
        "--scheduler-name", metavar="NAME", help="decide for the pods of this spec.schedulerName (default: dovetail)"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="Dovetail's configuration file")
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="write what is decided on, for `dovetail replay` and for reports"
    )
    parser.add_argument(
        "--keep-parameters",
        action="store_true",
        help="keep the opaque parameters of drivers in the saved file (they may hold secrets)",
    )
    add_format(parser)
    parser.set_defaults(execute=execute)


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the output's format."""
    parser.add_argument(
        "-o", "--output", choices=_FORMATS, default=_FORMATS[0], help="what is printed (default: table)"
    )


def execute(options: argparse.Namespace) -> int:
    """Read, decide, print; the imports wait until the settings are right."""
    paths = [path for each in options.filename for path in each]
    if not paths and not options.from_cluster:
        return _refuse("simulate: give manifests with -f FILE_OR_DIR, or --from-cluster, or both")
    name, settings = _settings(options)
    from scheduler.kube.errors import KubeError  # noqa: PLC0415 - the cluster's client takes a while to import
    from scheduler.simulation import answer, assembly, documents, live  # noqa: PLC0415 - so does the solver

    found = live.Live()
    if options.from_cluster:
        try:
            found = live.fetch(options.kubeconfig)
        except KubeError as error:
            return _refuse(f"--from-cluster: {error}")
    reading = documents.read(paths)
    made = assembly.Assembly(live=found.changes, problems=reading.problems, warnings=list(found.warnings))
    made.add((*found.documents, *reading.documents))
    case = made.case(name)
    for warning in case.warnings:
        sys.stderr.write(f"dovetail: warning: {warning}\n")
    for problem in case.problems:
        sys.stderr.write(f"dovetail: {problem}\n")
    asked = answer.recorded(case, settings, name)
    if options.save is not None:
        try:
            answer.save(options.save, asked, keep_parameters=options.keep_parameters)
        except OSError as error:
            return _refuse(f"--save: {options.save}: cannot be written: {error.strerror}")
    status = show(answer.answer(asked), options.output)
    return WRONG if case.problems else status


def _settings(options: argparse.Namespace) -> tuple[str, Settings]:
    """Give the scheduler's name and settings that have a profile for it."""
    if options.scheduler_name is None:
        settings = load(options.config)
        return settings.profiles[0].scheduler_name, settings
    overrides = Overrides(scheduler_names=(options.scheduler_name,))
    return options.scheduler_name, load(options.config, overrides)


def _refuse(message: str) -> int:
    sys.stderr.write(f"dovetail: {message}\n")
    return WRONG


def show(found: Any, form: str) -> int:
    """Print an answer and give the exit status that goes with it."""
    from scheduler.simulation import output, table  # noqa: PLC0415 - needed by the commands that print plans only

    for defect in found.defects:
        sys.stderr.write(f"dovetail: defect: {defect}\n")
    match form:
        case "json":
            sys.stdout.write(output.json_text(found))
        case "yaml":
            sys.stdout.write(output.yaml_text(found))
        case _:
            table.show(found, sys.stdout)
    return 1 if found.plan.unplaced or found.defects else 0
