"""
JSON of the API to frozen values of `solver.domain`; start with `objects`.

    objects          one object of any kind
    pods, pod_requests, inter_pod, gangs, claims, slices, nodes, storage, disruption   the kinds
    shared_fields    metadata, selectors, taints, quantities
    partial_objects  what counts of an object that cannot be decoded
    json_parts       pages of a list and lines of a watch, split into objects

One malformed object affects no other one.
"""
