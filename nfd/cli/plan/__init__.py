"""`nfd plan`: what a change of configuration or rules would do to the nodes.

`command` is the way in. `recorded`, `cluster` and `snapshot` collect the nodes, `model` is the input of a plan,
`changes` its result.
"""
