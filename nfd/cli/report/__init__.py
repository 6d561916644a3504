"""`nfd report`: a bundle for a bug report.

`command` is the way in. `collect` reads from the cluster. `bundle` removes what identifies machines and people, and
packs the rest.
"""
