"""`make browser`: uses the pages of map, page and report in Debian's chromium; 1 where something was not to be seen."""

import argparse
import datetime as dt
import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from e2e.arguments import at_least_one
from e2e.browser import clusters, journey, live_journey, map_files, measure, report_journey
from e2e.browser.visit import Chromium


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, Chromium() as chromium:
        pages = _pages(Path(folder), options.nodes)
        wrong = 0
        travels = itertools.chain(
            journey.travel(chromium, pages),
            report_journey.travel(chromium, Path(folder)),
            live_journey.travel(chromium, Path(folder)),
        )
        for name, problem in travels:
            print(f"{'FAILED' if problem else 'ok':8}A person {name}.", flush=True)
            print(f"{problem}\n" if problem else "", end="")
            wrong += bool(problem)
        for each in measure.measure(chromium, pages.large, options.runs):
            print(f"{each.what}: {each.value:.2f} {each.unit} ({each.limit})", flush=True)
        if options.pictures:
            options.pictures.mkdir(parents=True, exist_ok=True)
            taken = itertools.chain(
                journey.photograph(chromium, pages, options.pictures),
                report_journey.photograph(chromium, Path(folder), options.pictures),
                live_journey.photograph(chromium, Path(folder), options.pictures),
            )
            for path in taken:
                print(path)
    return 1 if wrong else 0


def _pages(folder: Path, nodes: int) -> journey.Pages:
    """Write the manifests of the clusters, and let `dovetail map` make their pages."""
    mixed = map_files.page(folder, "mixed", clusters.mixed(dt.datetime.now(dt.UTC)))
    document = json.loads(map_files.mapped(folder / "mixed.json", "-o", "json"))
    return journey.Pages(
        mixed,
        map_files.page(folder, "empty", clusters.empty()),
        map_files.page(folder, "large", clusters.large(nodes)),
        document,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make browser", description=__doc__)
    parser.add_argument("--nodes", type=at_least_one, default=5000, metavar="N", help="nodes of the large one (5000)")
    parser.add_argument("--runs", type=at_least_one, default=3, metavar="N", help="runs of each measurement (3)")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="take pictures of the page, and leave them here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
