"""
Hostile tenants and drivers: what they write must not keep the pods of others from being scheduled.

    make hostile                                       # a stream of good pods beside every case, one table
    make hostile ARGS="--list"                         # the cases
    make hostile ARGS="--only regular-expressions"     # some of them; --seconds, --nodes, --rate, --seed
    make hostile ARGS="--steps"                        # CPU time of each step of the largest objects, as a table
    make hostile ARGS="--objects 1000000"              # generated objects, without a cluster
    make hostile ARGS="--online 10000"                 # generated objects on the real API server
    make hostile ARGS="--seed 7 --only-object 4711"    # one generated object again

- `objects` generates hostile objects of every kind that is watched.
- `extremes` makes the largest objects of each kind in every shape; `steps` measures what they cost on the loop.
- `offline` takes them through decoding, mirror, solver, explanation and check; `online` creates them on the API server.
- `cases` holds what a tenant or a driver does, one function for a case; `mallory` is the process that does it, with the
  rights of a tenant (or of a driver) and that account's share of the API server.
- `disturbance` makes Dovetail list everything again while a case goes on.
- `stage` makes the cluster, `keeper` starts Dovetail again when it ends, `stream` creates good pods and measures them,
  `probes` ask what a case did to good pods besides delay, `verdict` judges (pure) and lays out the table, `run` is the
  story.

A new case is a function in a module of `cases`, decorated with `@case(...)`.
"""
