"""Leader election where one scheduler runs beside all of a control plane: a busy machine may starve it for a while."""

from typing import Final

PATIENT_LEADER: Final = {"leaseDurationSeconds": 120, "renewDeadlineSeconds": 90}
