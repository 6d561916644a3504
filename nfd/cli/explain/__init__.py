"""`nfd explain`: why a node has a label, or why not.

`command` is the way in. `local` asks this machine, `cluster` the API server and `master` the master.
"""
