"""
A solution, made concrete: counts of types become named devices, choices become placements, claims get their volumes.

`extraction` names devices and writes allocations, `settling` gives each claim its PersistentVolume (before it: who has
to go because there are too few), `aftermath` is the problem as the plan leaves it. Called once a plan is found; here
may not live: anything that chooses nodes or types.
"""

from solver.extract.extraction import Extracted, extract

__all__ = ["Extracted", "extract"]
