"""
One pod's whole story, for `dovetail explain`: it may take its time, and solves what it claims.

`trial` asks whether a pod fits on one node, also with something changed; `facts` are what can stand in its way there,
`conflict` finds a smallest set of them that does, `changes` what would let it in; `counts` are the numbers per request,
and `account` puts the story together. Here may not live: texts of conditions (`solver.explain`), and anything that a
plan depends on.
"""

from solver.diagnosis.pod_report import explain_pod

__all__ = ["explain_pod"]
