"""
JSON of the API to frozen values, a module for each family of kinds; `objects` is the door.

`shared` holds what objects of several kinds have in common. A malformed object is named and takes no other with it:
`envelopes` hands each on by itself, `stand_ins` (with `pod_remains` and `claim_remains`) says what counts of one that
cannot be read, `json_parts` takes apart what the decoder refuses, `parameters` puts back what was left out for it.
"""
