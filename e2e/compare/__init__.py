"""
`measure compare`: the same workloads with Dovetail and with kube-scheduler, on the same control plane, in one table.

`contestants` has the schedulers and their settings, `race` does one run and measures it, `samples` holds what was
measured and makes the table (pure), `__main__` is the command.
"""
