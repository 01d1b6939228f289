"""
Make it so: units become writes, in an order that can be taken back until the first binding.

- the story of one unit (`commit`) with what it can come to (`outcome`);
- its steps: their order (`operations`, pure), `claims`, `special_claims`, `volumes`, `burdens`, `bindings`, and
  `withdrawal`, which takes back;
- the wait for what has to be got ready: `readiness` and `volume_readiness` (pure), `waits`, `restraint`;
- preemptions, carried out: `evictions`;
- how fast all of it goes: `pace`, and `writer`, through which every request goes;
- what is put right behind it: `repairs`, `leftovers`, `strays`;
- devices that are given last, or not, for a while: `own_taints` for `avoidance` and `suspicion`;
- what is told: to users by `conditions` with `condition_reasons`, `groups` and `events`, which `reports` writes from
  its `outbox` as far as the `allowance` goes; to operators by `tally`.

Nothing is decided here: a unit that no longer fits goes back with its reason. Called by `scheduler.cycle`; talks to
the cluster through the writes of `scheduler.kube` alone.
"""
