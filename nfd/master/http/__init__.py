"""The master's HTTP server.

`server` is the way in: probes and metrics. `limits` restricts connections, `metrics` has all series, and `reports_api`
serves reports to authorised clients.
"""
