"""What several tests need of the control plane."""

from typing import Final

import pytest

WITH_POD_GROUPS: Final = pytest.mark.kubernetes(since="1.36", gates=("GenericWorkload",))
"""PodGroups of `scheduling.k8s.io`."""
MUTATING_POLICIES: Final = pytest.mark.kubernetes(since="1.36")
"""MutatingAdmissionPolicy as shipped; before, it is a beta API that is off."""
