"""What every test has: the control plane's fixtures (started only when one is asked for) and hypothesis' profiles."""

import os

from hypothesis import settings

pytest_plugins = ["tests.support.controlplane"]

# No deadline anywhere: the machines are shared, and a slow moment is not a defect.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))
