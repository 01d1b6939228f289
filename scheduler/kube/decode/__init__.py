"""
JSON of the API to frozen values of `solver.domain`; start with `objects`.

    objects          one object of any kind
    pods, pod_requests, inter_pod, gangs, claims, slices, nodes, storage, disruption   the kinds
    shared_fields    metadata, selectors, taints, quantities
    partial_objects  what counts of an object that cannot be decoded
    json_parts       pages of a list and lines of a watch, split into objects
    legible_json     JSON that msgspec refuses, made legible in the same number of bytes
    value_limits     how many values of an object are read
    pieces           work that stops in between for the event loop

One malformed object affects no other one.
"""
