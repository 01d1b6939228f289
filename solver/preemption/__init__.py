"""
Preemption: who has to go so that pods of higher priority fit, with the least harm.

`preempt` is the story. `helping` goes unit by unit, `together` decides several units of one priority in one model, and
`rearranging` asks whether pods of the plan could go elsewhere instead of somebody who runs. `ground` is the cluster as
one decision after the other leaves it, `vacancy` the cluster without some pods, `parties` says who may go, `shields`
what protects them, and `offers` keeps who may go at a priority, `ranking` which nodes are looked at. `outlook` puts
before either what is looked at. `harm` finds the least harm, with what `residents` writes of running pods for the
model; `reprieve` is the way without a model, `placing` asks whether everybody fits then. `holding` keeps the room until
it is free. `telling` has the words. `moves` is defragmentation: nobody goes, some are placed elsewhere, and `staying`
says who is not.
Called by `solver.solve` after the plan, and by `dovetail defrag`; nothing here evicts anybody.
"""
