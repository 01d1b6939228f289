"""
Observability: log events (`logs`), Prometheus series (`metrics`), health checks and the HTTP server (`health`).

The name of every log event and every series is defined here, once. `unexpected_errors` logs, counts and confines
exceptions that no code expects; `memory` measures the processes; `terminal` escapes texts of users. Nothing here makes
decisions. The composition root creates one `Metrics` and one `Health` and passes them on.
"""
