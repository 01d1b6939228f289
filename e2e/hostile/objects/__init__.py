"""
Hostile objects of every kind that Dovetail watches, one for each pair of a seed and a number.

`generator` is the door: `generate(seed, number)`. A module for each family of kinds (`pods`, `claims`, `slices`,
`machines`, `storage`, `groups`) makes a valid object and has a table of twists, each of which makes one field hostile;
`selectors` holds CEL expressions, `mutation` changes any leaf of any object, `draw` knows the values that programs get
wrong. `kinds` says where the objects of a kind are in the API. Everything here is pure: the same pair gives the same
object, to the last byte.

A new twist is a function that changes a manifest, decorated with `@table.twist("what it does")`. A twist that the API
server refuses says `is_admitted=False`: it is still worth decoding, because another version may admit it.

The objects leave alone what good pods need: they may do anything to the node `HELD_NODE` and to nodes of their own, and
none of them has a priority above `MOST_PRIORITY`. So good pods of a higher priority have room, whatever is drawn.
"""
