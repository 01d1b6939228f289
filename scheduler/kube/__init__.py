"""
The API's wire: the only door to the cluster.

Here live configuration and credentials (`kubeconfig`, `credentials`), requests and their errors (`client`, `paths`,
`errors`, `backoff`), what the server has (`discovery`), JSON to frozen values and back (`decode`, `pod_requests`,
`encode`, `protobuf`), the reflector (`watch` without I/O, `reflector` with it), every write that the scheduler makes
(`writes`, `*_writes`, `pod_status`) and the leader's Lease (`lease`, `elector`). Here may not live: decisions, the
mirror, logs and metrics; what happened is returned, raised or handed to a callback. Nobody else imports `kubernetes`
or `aiohttp` (except the health server, which serves with the latter).
"""
