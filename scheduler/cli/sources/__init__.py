"""
Where commands take their answers from: the objects of a cluster or a saved snapshot, or a running scheduler.

`targets` reads which object a question is about.
`watching` asks again.
"""
