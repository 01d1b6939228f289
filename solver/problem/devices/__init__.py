"""
Devices of the cluster in dense form: what is published, what of it is taken, and which nodes look the same to a batch.

`inventory` is what is published (`recall` remembers what single slices came to), `owned` which of it may be allocated,
`usage` what is taken and `states` what is left. `drafting`, `laying` and `layout` describe nodes whose devices look the
same to a batch once instead of one by one; `partitions` and `groups` say what is worth more whole, `pairing` what is
worth more beside others. `restocking` and `relaying` bring inventory and layout up to date where slices were published
again for a taint or an attribute.
"""
