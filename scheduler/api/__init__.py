"""
What the scheduler serves over HTTP: health, metrics, and its own API.

The API answers questions about decisions, the use of devices, waiting pods, and devices that are held or free.

- `monitoring_server`: health and metrics; `api_server`: the rules of the API. Each runs in a `server_thread`.
- `caller_api`: answers by rules, with limits of rate and concurrency.
- `http_server`: what all of them use, time-outs and TLS; `connections`: the bounds that hold before a caller is known.
- `authentication`: the user of a token (TokenReview), within bounds; `caller_rights`: what the caller may see
  (SubjectAccessReview).
- `history_answers`, `usage_answers`, `queue_answers`, `fleet_answers`: the documents, without what the caller may not
  see. What takes time runs in `answer_threads`, and questions about the fleet in a child of the worker.
- `scheduler_client`: the other end, for the command line.

Another answer about the cluster is a module with one function: a query and the caller's rights in, a document out, and
a line in `api_server.ANSWERS`.
"""
