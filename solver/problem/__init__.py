"""
The dense form of a snapshot and a batch: ints instead of keys, classes of identical things, only what matters.

Built in this order: `inventory` (devices as published), `usage` (what of them is taken), `demand` (what the
batch asks for), `layout` (nodes whose devices look the same to this batch), `options` (ways to serve a demand on
such a node), `problem` (all of it). Pure data for `greedy`, `model` and `extract`; decides nothing.
"""
