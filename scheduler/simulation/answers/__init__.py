"""Answers as people and programs read them: a plan (`table`, `output`), a story (`telling`), both (`printing`)."""
