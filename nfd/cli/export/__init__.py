"""`nfd export`.

`command` is the way in, and prints features or labels of this machine as NFD's client does. `nodes_template` prints
what a group of nodes has in common, for autoscalers and queues. `fleet` prints what `nfd plan` needs of a cluster;
`anonymous` removes from it what identifies.
"""
