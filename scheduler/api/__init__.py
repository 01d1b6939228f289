"""
What the scheduler serves over HTTP: health, metrics, and its own API.

The API says what was decided, how long devices were in use, who waits, who holds what and what is free.

- `monitoring_server`: health and metrics, in a thread of their own.
- `api_server`: the API, with limits of rate and concurrency; `http_server`: what both use, time-outs and TLS.
- `connections`: accepts connections, within bounds that hold before anybody has said who calls.
- `authentication`: who the caller is (TokenReview), within bounds; `caller_rights`: what the caller may see
  (SubjectAccessReview).
- `history_answers`, `usage_answers`, `queue_answers`, `fleet_answers`: the documents, without what the caller may not
  see. What takes time runs in `answer_threads`, and questions about the fleet in a child of the worker.
- `scheduler_client`: the other end, for the command line.

Another answer about the cluster is a module with one function: a query and the caller's rights in, a document out, and
a line in `api_server.ANSWERS`.
"""
