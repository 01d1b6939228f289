"""
`make measure ARGS=regression`: an earlier commit and this checkout are measured in turns, and what got worse is named.

Every turn measures both, each with the tools and the locked environment of its own commit, and every other turn in
the opposite order. A figure got worse where all its values of this checkout are worse than all of the commit's.
By chance alone that happens to one figure in 126 with five turns, in either direction.
"""
