"""The master over HTTP.

`server` is the way in: probes and metrics. `limits` bounds connections, `metrics` has all series, and `reports_api`
serves reports to those who may read them.
"""
