"""The command line of the audit."""

import argparse
import shutil
import sys
from pathlib import Path

from e2e.audit import audit, leftovers, read_with_kubectl, summary
from e2e.audit.history import History
from e2e.audit.reading import Key
from e2e.audit.writes import read_writes


def main(arguments: list[str] | None = None) -> int:
    """Audit a cluster; 0 when nothing is wrong, 1 otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.audit", description="Check allocations and bindings of a cluster."
    )
    parser.add_argument("--kubeconfig", type=Path, help="as kubectl's")
    parser.add_argument("--kubectl", default=shutil.which("kubectl") or "kubectl", help="the kubectl to read with")
    parser.add_argument("--leftovers", action="store_true", help="also look for what is held for no running pod")
    parser.add_argument("--log", type=Path, help="an audit log of the API server: check its history instead")
    parser.add_argument("--lease", default="dovetail-system/dovetail", help="the scheduler's (default: %(default)s)")
    parser.add_argument("--about", help="with --log: list the holders of devices and claims whose names contain this")
    parser.add_argument("--left-seconds", type=float, default=60.0, help="for taking back (default: %(default)g)")
    options = parser.parse_args(arguments)
    if options.log is not None:
        return _history(options)
    objects = read_with_kubectl(options.kubectl, options.kubeconfig)
    findings = audit(objects) + (leftovers(objects) if options.leftovers else [])
    print(summary(objects, findings))
    return 1 if findings else 0


def _history(options: argparse.Namespace) -> int:
    with options.log.open(encoding="utf-8") as lines:
        writes = read_writes(lines)
    history = History.of(writes, lease=Key(*options.lease.split("/", 1)), left_seconds=options.left_seconds)
    for each in sorted(history.holdings, key=lambda each: each.since):
        if options.about and options.about in str(each):
            print(each)
    for finding in history.findings:
        print(f"{finding.rule:10} {finding.subject}: {finding.message}")
    print(f"{history.allocations} allocations in {len(writes)} writes; findings: {len(history.findings)}")
    return 1 if history.findings else 0


if __name__ == "__main__":
    sys.exit(main())
