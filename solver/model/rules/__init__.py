"""
The rules of a plan, grouped by the shape of their rows; each function adds the rows of one rule.

Hard rules: `pods` (how many pods go where), `components` (every claim is served in one way), `devices` (nothing is
given out twice), `limits` (so much per domain), `neighbours`, `gangs`, and `keeping` (running pods that may be
sent away). `alike` tightens the relaxation, where cells stand for several nodes.
Expressions that levels maximise: `groups`, `partitions`, `tastes`.
"""
