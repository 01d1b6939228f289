"""`python -m e2e.dashboards`: ask every panel of a real Prometheus; `--write` writes the files of deploy/monitoring."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from e2e import table
from e2e.controlplane.access import RequestError
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.dashboards import files, scrape


def main() -> int:
    """Run the command; 1 if a query returned nothing."""
    parser = argparse.ArgumentParser(prog="make dashboards", description="Every query returns data from Prometheus.")
    parser.add_argument("--write", action="store_true", help="only write dashboards and rules into deploy/monitoring")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="draw what each panel shows, and leave it here")
    options = parser.parse_args()
    if options.write:
        for path, text in files.texts().items():
            path.write_text(text, encoding="utf-8")
        return 0
    try:
        if options.pictures:
            options.pictures.mkdir(parents=True, exist_ok=True)
        return scrape.run(Console(width=table.WIDTH), options.pictures)
    except (BuildError, ComponentError, KubectlError, RequestError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
