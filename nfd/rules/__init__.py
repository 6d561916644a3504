"""The rule engine: NodeFeatureRule, NodeFeatureGroup and the worker's own rules, evaluated over features.

Everything in this package is a plain function of values: no files, clock, environment, network or logging. Start
reading at `evaluate.py`; the rule language is upstream's "Customization guide"
(https://kubernetes-sigs.github.io/node-feature-discovery/stable/usage/customization-guide.html).

    text ─▶ parse ─▶ model ─▶ compile ─▶ evaluate ─▶ policy
                                            ╰── operators, match_features, template/
"""
