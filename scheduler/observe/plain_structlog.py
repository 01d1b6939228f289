"""structlog without rich: it imports rich for tracebacks in colour, which are not used here, and that takes 0.2 s."""

import sys
from typing import Any

_modules: dict[str, Any] = sys.modules
_is_loaded = "rich" in _modules
_modules.setdefault("rich", None)  # as if it were not installed
import structlog  # noqa: E402 - see above

if not _is_loaded:
    del _modules["rich"]

__all__ = ["structlog"]
