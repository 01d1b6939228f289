"""
Make it so: units become writes, in an order that can be taken back until the first binding.

Here live the order of the writes (`operations`, pure), the single steps (`claims`, `bindings`, `withdrawal`), the
story of one unit (`commit`) with what it can come to (`outcome`), the wait for devices that have to be got ready
(`readiness`, pure, `waits`, `avoidance`), how fast all of it goes (`pace`, `writer`), what is
put right behind it (`repairs`), and what users and operators are told (`conditions`, `events`, `reports`, `tally`).
Nothing is decided here: a unit that no longer fits goes back with its reason. Called by `scheduler.cycle`; talks to
the cluster through `scheduler.kube.writes` alone.
"""
