"""
Make it so: units become writes, in an order that can be taken back until the first binding.

- the story of one unit (`commit`) with what it can come to (`outcome`), its `steps` and their order;
- `companions`: who waits for the binding of a pod that it has to be with; `leaning` is the order in which they begin;
- `waiting` for what has to be got ready;
- preemptions, carried out: `evictions`, within `eviction_bound`;
- whether a write may start (`gates`), how fast all of it goes (`pace`), and `writer`, through which every request goes;
- `repair`: what is put right behind it; `shunned`: devices that are given last, or not, for a while;
- `telling`: what users and operators are told.

Nothing is decided here: a unit that no longer fits goes back with its reason. Called by `scheduler.cycle`; talks to
the cluster through the writes of `scheduler.kube` alone.
"""
