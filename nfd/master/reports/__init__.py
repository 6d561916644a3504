"""Reports of workers.

`accept_reports` is the way in: it accepts or rejects a report. `store` keeps the latest report of each node, and
`heartbeats` records when each worker last sent one. `send_copies` and `receive_copies` share reports among masters.
"""
