"""Arrays with an entry per node."""

from typing import Final

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Amounts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
MOST: Final = 2**52
"""The largest amount: more than any node has (16Ei of memory, say), and small enough for sums in 64 bits."""
