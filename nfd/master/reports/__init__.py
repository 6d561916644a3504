"""Reports of workers.

`handler` is the way in: it takes a report or says why not. `store` keeps the latest report of each node, and
`heartbeats` knows when each worker spoke last.
"""
