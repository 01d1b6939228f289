"""The command line of the tests of alerts."""

import sys

from e2e import alerts
from e2e.controlplane.build import BuildError

if __name__ == "__main__":
    try:
        sys.exit(alerts.run())
    except BuildError as error:
        sys.exit(str(error))
