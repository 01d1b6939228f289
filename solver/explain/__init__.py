"""
Why a pod waits: dropped candidates and conflicts, in words that a person understands.

`reasons` explains the pods that a plan leaves out, for their conditions and events: `supply` counts what there is of
devices, `fewer` finds how many would fit where the number asked for does not, `texts` are the sentences, `hints` says
what to write instead, `never` what no node can be for a pod, `company` whom its affinity misses. `gangs` explains why a
gang waits. Called by `solver.solve`; nothing here changes a plan. One pod's whole story, for `dovetail explain`, is
told by `solver.diagnosis`.
"""

from solver.explain.unplaced_reasons import Explanation

__all__ = ["Explanation"]
