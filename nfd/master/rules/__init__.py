"""Rules, groups and NodeFeature objects of the cluster.

`resources` is the way in: it follows the objects. `ruleset` puts compiled rules in order, `evaluation` evaluates them
on one node, `evaluator` caches the results. `status` and `status_writer` write the status of the objects.
"""
