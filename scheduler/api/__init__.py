"""
The scheduler's own API: what it decided, how long devices were in use, and who waits.

- `api_server`: HTTP, limits of rate and concurrency.
- `connections`: accepts connections, within bounds that hold before anybody has said who calls.
- `caller_rights`: who the caller is (TokenReview) and what the caller may see (SubjectAccessReview).
- `history_answers`, `usage_answers`, `queue_answers`: the documents, without what the caller may not see.
- `scheduler_client`: the other end, for the command line.

Another answer about the cluster is a module with one function: a query and the caller's rights in, a document out, and
a line in `api_server.ANSWERS`. What takes time runs in a thread.
"""
