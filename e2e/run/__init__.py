"""
`make run`: a cluster out of nothing, Dovetail at work in it, and a table that shows what it does.

`stage` builds the scene (control plane, fleet, scheduler, examples), `view` shows the pods, `__main__` is the command.
`make nodes` is the same with `real` nodes.
"""
