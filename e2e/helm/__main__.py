"""`python -m e2e.helm`: Helm on the real API server, beside kustomize; `--write` only writes the chart's templates."""

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from e2e import table
from e2e.controlplane.access import RequestError
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.helm import release, templates
from e2e.helm.command import ChartError


def main() -> int:
    """Run the command; 1 at the first difference."""
    parser = argparse.ArgumentParser(prog="make chart", description="The Helm chart does what kustomize does.")
    parser.add_argument("--write", action="store_true", help="only write the generated files of deploy/chart")
    try:
        if parser.parse_args().write:
            for path, text in templates.texts().items():
                path.write_text(text, encoding="utf-8")
            return 0
        with tempfile.TemporaryDirectory(prefix="dovetail-chart-") as folder:
            release.run(Console(width=table.WIDTH, highlight=False), Path(folder))
    except (BuildError, ComponentError, KubectlError, RequestError, ChartError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
