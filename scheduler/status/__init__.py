"""
What is told: to users in conditions and events, to operators in series.

`conditions` (with `condition_reasons`, a closed list), `groups` and `events` are the texts; `reports` writes them from
its `outbox` as far as the `allowance` goes. `tally` counts for operators.
"""
