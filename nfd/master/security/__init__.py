"""Credentials: who may connect, and with which keys.

`setup` is the way in: from flags to credentials. `authority` and `certificates` make the certificates, `authentication`
checks callers, and `proof_key` keeps the key that proves what a master wrote on a Node.
"""
