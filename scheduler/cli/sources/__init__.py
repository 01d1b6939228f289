"""
Where commands take their answers from: the objects of a cluster or a saved snapshot, or a running scheduler.

`watching` asks again.
"""
