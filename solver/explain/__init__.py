"""
Why a pod waits: dropped candidates and conflicts, in words that a person understands.

`reasons` explains the pods that a plan leaves out, for their conditions and events; `account` tells one pod's whole
story, for `dovetail explain`. Called by `solver.solve` and the commands; nothing here changes a plan.
"""

from solver.explain.reasons import Explanation

__all__ = ["Explanation"]
