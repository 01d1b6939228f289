"""
How `simulate` reads manifests, beside the API server.

- `api_schema`: writes the fields and types that manifests are held to.
- `mutations`: thousands of manifests, each a valid one (`bases.yaml`) with one or two changes, mistakes or not.
- `judges`: what the API server and Dovetail say of a manifest, and whether they read the same.
- `differences`: disagreements that are known, each with its reason.
"""
