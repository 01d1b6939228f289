"""
The Helm chart of `deploy/chart`.

Its templates are generated from what kustomize renders of `deploy` (`templates`), so that there is one source of truth:
the manifests with their comments. `release` lints, renders, installs, upgrades, rolls back and removes the chart with
Helm, which is built from its Go module, and compares each with kustomize.

    make chart-templates    # writes deploy/chart/templates and values.schema.json
    make chart              # Helm on the real API server
"""
