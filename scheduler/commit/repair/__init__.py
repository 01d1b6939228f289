"""
What is put right behind the scheduler's own writes, and others'.

`repairs` takes back allocations in the way that belong to nobody who runs, `leftovers` claims that a former attempt
left, `strays` allocates the claims of pods that were given a node by hand, `readmission` takes in waiting pods and
claims that were left out for want of memory.
"""
