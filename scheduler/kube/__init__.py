"""
The Kubernetes API: the only package that talks to the API server.

    access                     which kubeconfig file, context and namespace a command uses
    kubeconfig, credentials    configuration, tokens and certificates
    client, paths, errors      requests and their errors
    http                       the connections that they use
    discovery                  which kinds and versions the API server has
    decode, encode, protobuf   API objects to frozen values, and back
    watch, reflector           list and watch: the protocol without I/O, and the task around it
    writes, pod_writes, volume_writes,
    extended_resource_writes   every write of the scheduler, each one request with its guard
    writer, concurrency_limit  pacing, retries and fencing of these requests
    lease, elector             leader election: the state machine without I/O, and the task around it

No decisions, no cluster cache, no logs and no metrics here: results are returned, raised or given to a callback. No
other package imports `kubernetes`.
"""
