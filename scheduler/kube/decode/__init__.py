"""
JSON of the API to frozen values, a module for each family of kinds; `objects` is the door.

`shared` holds what objects of several kinds have in common. A malformed object is named and takes no other with it.
"""
