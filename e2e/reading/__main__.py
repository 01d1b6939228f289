"""`make reading`: thousands of mutated manifests go to the API server, as a strict dry run, and to `simulate`."""

import argparse
import sys
from collections import Counter

from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import ComponentError
from e2e.reading import comparison

CASES = 5000


def main() -> int:
    """Run the command; 1 where the two disagree and no known difference says why."""
    parser = argparse.ArgumentParser(prog="make reading", description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES, help=f"how many manifests (default: {CASES})")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--kind", action="append", default=[], help="of this kind only, such as Pod")
    options = parser.parse_args()
    try:
        with ControlPlane.start(feature_gates="on") as plane:
            tally = comparison.compare(plane.request, options.cases, options.seed, options.kind)
    except (BuildError, ComponentError) as error:
        print(error, file=sys.stderr)
        return 1
    for found in tally.disagreements:
        print(found)
    known = ", ".join(f"{name} {count}" for name, count in sorted(Counter(tally.known).items())) or "none"
    print(
        f"{tally.cases} manifests: both take {tally.taken}, both refuse {tally.refused}, by admission {tally.skipped}"
    )
    print(f"known differences: {known}; others: {len(tally.disagreements)}")
    return int(bool(tally.disagreements))


if __name__ == "__main__":
    sys.exit(main())
