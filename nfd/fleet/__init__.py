"""The fleet for people: the data of Node and Pod objects, as plain values (pure).

`node_summary` sums up one Node, `pods` what pods ask for, `gpus` who has which GPUs and how much of them is taken;
`query` finds nodes by an expression over labels, and `affinity` says the same as Kubernetes does. Objects are JSON as
the API server gives them; nothing here reads files, clock or network.
"""
