"""
What anybody wrote in files, and what the API server would say of it.

`documents` makes documents of files, `routes` says which kinds and versions are read, `fields` looks into what may be
malformed. `refusals` collects what would be refused (`shapes`, `spelling`, `pod_rules`, `claim_rules`, `volume_rules`,
`edits`; `admission` needs more than one manifest), `decoding` makes a change of a document as the watches do, and
`wording` puts the decoder's messages into the words of somebody who writes manifests.
"""
