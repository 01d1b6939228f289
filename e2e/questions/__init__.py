"""How long the answers of `dovetail devices`, `fit`, `explain` and so on take on a large cluster, from both sources."""
