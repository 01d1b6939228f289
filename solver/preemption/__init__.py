"""
Preemption: who has to go so that pods of higher priority fit, with the least harm.

`vacancy` makes the cluster as it would be, `parties` says who may go, `residents` writes what they hold for the model,
`harm` finds the least harm, `reprieve` is the way without a model, `preempt` is the story, `holding` keeps the room
until it is free. Called by `solver.solve` after the plan; nothing here evicts anybody.
"""
