"""What every program needs, whatever it does.

`log` writes, `tasks` and `threads` start what runs beside (nothing ends unnoticed), `signals` ends a program,
`probes` and `http_server` answer probes and serve `prometheus` metrics. `files`, `file_watches` and `cache` are for
those who need one. Nothing here knows of features.
"""
