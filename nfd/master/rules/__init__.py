"""Rules, groups and NodeFeature objects of the cluster.

`resources` is the way in: it follows the objects. `ruleset` puts compiled rules in order, `evaluation` runs them over
one node, `evaluator` remembers what came of it. `status` and `status_writer` answer in the objects.
"""
