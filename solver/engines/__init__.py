"""
The engines that read the integer form: CP-SAT decides, GLOP bounds, and prices patterns (`programme`).

The only place that imports `ortools`. Status words are our own.
"""
