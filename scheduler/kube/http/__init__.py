"""
HTTP/1.1 to the API server: connections, and the pool that keeps them open.

Every write of the scheduler waits for it, so it is no general client: one server, answers in their order, no redirects,
no compression, no cookies. Nothing here knows Kubernetes. Errors are OSErrors; the client says what they mean.
"""
