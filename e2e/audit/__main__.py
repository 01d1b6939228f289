"""The command line of the audit."""

import argparse
import shutil
import sys
from pathlib import Path

from e2e.audit import audit, leftovers, read_with_kubectl, summary


def main(arguments: list[str] | None = None) -> int:
    """Audit a cluster; 0 when nothing is wrong, 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.audit", description="Check allocations and bindings of a cluster."
    )
    parser.add_argument("--kubeconfig", type=Path, help="as kubectl's")
    parser.add_argument("--kubectl", default=shutil.which("kubectl") or "kubectl", help="the kubectl to read with")
    parser.add_argument("--leftovers", action="store_true", help="also look for what is held by nobody who runs")
    options = parser.parse_args(arguments)
    objects = read_with_kubectl(options.kubectl, options.kubeconfig)
    findings = audit(objects) + (leftovers(objects) if options.leftovers else [])
    print(summary(objects, findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
