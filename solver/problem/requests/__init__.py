"""
What pods ask of devices, in dense form: demands, the requests that constraints tie together, and ways to serve them.

`demand` is what one request asks of a single device, `component` the requests of a claim that constraints tie together,
`options` (each an `option`) the ways to serve one on a node. `modes` says which extended resources of a pod are served
by devices and where, `burdens` what devices take of the node itself, `places` how many may still join a claim.
"""
