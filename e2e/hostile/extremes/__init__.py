"""
The largest objects of each watched kind that the API server admits, in every shape.

- `entries`, `pod_entries`, `device_entries`, `other_entries`: with what each list is filled, and the API's limit of it.
- `bases`: the small objects that shapes start from; `sizes`: how many entries etcd admits; `served`: JSON as Go writes
  it, with managed fields.
- `wide` fills one list, `texts` makes what is deep, long or escaped, `refused` what Dovetail refuses.
- `catalogue` lists all of them.
"""
