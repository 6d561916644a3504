"""What every program needs, whatever it does.

`log` writes, `tasks` and `threads` start what runs beside (nothing ends unnoticed), `signals` ends a program,
`health` serves probes and metrics. `files`, `file_watches` and `cache` are for those who need one. Nothing here knows
of features.
"""
