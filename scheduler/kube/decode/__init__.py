"""
JSON of the API to frozen values of `solver.domain`; `objects` is the way in.

    objects          one object of any kind
    pods, pod_requests, inter_pod, gangs, claims, slices, nodes, storage, disruption   the kinds
    shared_fields    metadata, selectors, taints, quantities
    envelopes        pages of a list, lines of a watch
    partial_objects  what counts of an object that cannot be decoded
    json_parts       JSON that the fast decoder refuses (nested too deep, lone surrogates)

One malformed object affects no other one.
"""
