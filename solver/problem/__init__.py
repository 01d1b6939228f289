"""
The dense form of a snapshot and a batch: ints instead of keys, classes of identical things, only what matters.

`prepare` builds it and is the place to start reading; `problem` is what comes out. In this order:

- `devices`: what is published, what of it is taken, which nodes look the same to this batch;
- `requests`: what pods ask of devices, and the ways to serve it;
- nodes: `fit` (which ones a pod may use, with `judging` and the `label_index`; what is left of them), `following` (pods
  that go where others have a node nominated), `nominations` (which of these count);
- rules that come as amounts per domain: `limits` (the form), `holds`;
- rules among pods: `gangs`, `neighbours`, `volumes`; costs of places: `tastes`.

`charging` pays for pods from the allowance before they are looked at, `rates` says what long ones cost. `memory` is
what the core remembers between solves. Pure data for `greedy`, `model` and `extract`; decides nothing.
"""
