"""
Where commands take their answers from: the objects of a cluster or a saved snapshot, or a running scheduler.

`targets` reads which object a question is about.
`configuration` chooses the configuration, `running_configuration` reads that of the scheduler that runs.
`watching` asks again.
"""
