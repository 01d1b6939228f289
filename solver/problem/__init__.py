"""
The dense form of a snapshot and a batch: ints instead of keys, classes of identical things, only what matters.

`prepare` builds it and is the place to start reading; `problem` is what comes out. In this order:

- devices: `inventory` (as published; `recall` remembers single slices), `owned` (which may be allocated), `usage`
  (what of them is taken), `states` (what is left), `partitions` and `groups` (what is worth more whole);
- what is asked for: `demand` and `component` (requests that constraints tie together), `modes` (extended resources that
  devices serve on some nodes), `drafting`, `laying` and `layout` (nodes whose devices look the same to this batch),
  `options` and `option` (ways to serve a component there), `device_domains` and `splits` (values that a gang shares);
- nodes: `fit` (which ones a pod may use, with `judging`; what is left of them), `burdens` (what devices take of them);
- rules that come as amounts per domain: `limits` (the form), `places` (of a claim), `holds`;
- rules among pods: `gangs`, `neighbours`, `volumes`; costs of places: `tastes`.

`memory` is what the core remembers between solves. Pure data for `greedy`, `model` and `extract`; decides nothing.
"""
