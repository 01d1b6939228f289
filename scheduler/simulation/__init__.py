"""
The same engine without a scheduler that runs, for `dovetail simulate`, `replay`, `explain` and `defrag`.

Manifests (or a live cluster) become the snapshot and the batch that production would decide on, and what comes of it is
printed as a table or as a documented JSON. In the order of use:

- reading: `documents` (files to documents), `live` (a cluster's objects), `fields` (looking into what anybody wrote);
- what the API server does: `routes` (kinds and versions), `refusals` with `shapes`, `spelling`, `pod_rules`,
  `claim_rules`, `edits` and `admission` (what it would refuse), `wording` (in which words), `defaults` (what it would
  fill in);
- what controllers do: `workloads` (their pods), `stamping` (their claims), `storage` (their volumes);
- `assembly`: all of that to a `Case` (`case`), through the `decoding` of the watches;
- `answer` (case to plan or story, checked), `moving` (case to moves), `applying` (moves, made: all that writes here);
- printing: `output` and `table` (a plan), `telling` (a story), `printing` (what they have in common).

Here may not live: rules of allocation. Only `scheduler.cli` calls it.
"""
