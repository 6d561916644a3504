"""`nfd report`: a bundle for a bug report.

`command` is the way in. `collect` asks the cluster, and `bundle` removes what identifies and packs the rest.
"""
