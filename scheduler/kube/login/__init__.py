"""Who we are to the API server, by a kubeconfig file: its context, its credential plugin, and no secret in messages."""
