"""
CEL as Dynamic Resource Allocation knows it: parse → check → compile, and the values that expressions compute with.

Here lives the language. Here may not live: anything that knows claims, pools or nodes. Only `feasibility.selectors`
may import this package; the grammar of cel-python is used in `parse` and nowhere else.
"""
