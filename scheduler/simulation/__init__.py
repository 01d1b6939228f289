"""
The same engine without a scheduler that runs, for `dovetail simulate`, `replay`, `explain` and `defrag`.

Manifests (or a live cluster) become the snapshot and the batch that production would decide on, and what comes of it is
printed as a table or as a documented JSON. In the order of use:

- reading: `manifests` (files to documents, and what the API server would refuse), `live` (a cluster's objects);
- `controllers`: what the servers and controllers of a cluster would fill in and make of them;
- `assembly`: all of that to a `Case` (`case`);
- `answer` (case to plan or story, checked), `deciding` (in parts where room is held, as the cycle does), `moving` (case
  to moves), `applying` (moves, made: all that writes here);
- printing: `answers` (tables, and documents in JSON or YAML).

Here may not live: rules of allocation. Only `scheduler.cli` calls it.
"""
