"""
The steps of one unit: their order (`operations`, pure), and each of them.

`claims`, `special_claims` (behind extended resources), `volumes`, `burdens` (what claims take of nodes) and `bindings`
write; `withdrawal` takes back what was written for pods that are not bound.
"""
