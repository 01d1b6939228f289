"""
What may go where, before any optimisation, with a reason for everything dropped.

Here live selectors (CEL), taints, node affinity and fit, pools and capacities: facts about single objects and pairs
of them. Here may not live: anything that chooses. The problem's builder asks; nobody below it is asked back.
"""
