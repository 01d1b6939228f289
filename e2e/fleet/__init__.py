"""
Nodes, device classes and resource slices as real clusters have them, without the hardware.

`shape` knows what a node and a slice look like, one module per vendor what its driver publishes (`nvidia`, `amd`,
`dranet`, `hami`), `fleets` puts them together, and only `publish` talks to an API server. Everything else is pure: the
same arguments give the same manifests, to the last uuid.
"""
