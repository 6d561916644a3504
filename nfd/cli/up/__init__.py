"""`nfd up`: worker and master on this machine.

`command` is the way in. `local_master` is the master, which needs the extra packages `nfd-gfd[master]`.
"""
