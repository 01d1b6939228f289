"""
Generated objects through everything that the shell does with them, without a cluster.

`path` is the way of an object, from the bytes of a watch to a checked plan and the text of a condition; `rounds` takes
some objects, the pods that need them (`companions`) and some good pods along it, and says what went wrong; `reduction`
finds the few objects that it takes; `fuzz` does very many rounds in several processes, ends a round that hangs, and
saves what fails.
"""
