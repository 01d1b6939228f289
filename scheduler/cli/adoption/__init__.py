"""The commands for a cluster in which another scheduler decides: `observe` and `report`. They write nothing to it."""

from pathlib import Path
from typing import Final

RECORD: Final = Path("dovetail-observation.jsonl")
"""The file that `observe` writes and `report` reads, unless they are given another one."""
