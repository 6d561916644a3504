"""One Node: what it should carry, and how it gets there. The only code that writes Nodes.

`reconcile` is the way in. `outcome` says what the Node should carry and why, `plan` what differs, `patch` how to
write it, and `writer` writes it and finds out what the API server rejects.
"""
