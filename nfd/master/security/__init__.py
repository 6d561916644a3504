"""Who may connect, and by which keys.

`setup` is the way in: from flags to credentials. `authority` and `rotation` are the certificates, `authentication`
checks callers, `proof_key` keeps the key by which a master proves what it wrote on a Node.
"""
