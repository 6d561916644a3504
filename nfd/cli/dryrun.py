"""Evaluate rules on the features in a file, as NFD's `kubectl nfd dryrun` does. Prints what the rules set, in sections,
and what the master would reject. The exit status is 1 if a rule fails."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from nfd.cli.parsers import path
from nfd.cli.rule_files import read_rules, text_of, warn_if_empty
from nfd.cli.rule_results import try_rules
from nfd.errors import ConfigError
from nfd.message_text import visible
from nfd.rules.feature_files import parse_features

EXAMPLES = (("dryrun -f rules.yaml -n features.yaml", "features from `nfd discover -o features`"),)


def add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("-f", "--nodefeaturerule-file", metavar="FILE", type=path, required=True, help="the rules")
    about = "a NodeFeature object or spec"
    parser.add_argument("-n", "--nodefeature-file", metavar="FILE", type=path, required=True, help=about)


def run(args: Namespace) -> int:
    rules, features = args.nodefeaturerule_file, args.nodefeature_file
    objects = [parsed for parsed, _ in read_rules(rules)]
    warn_if_empty(rules, objects)
    try:
        found, _, odd = parse_features(text_of(features), features)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    sys.stderr.write("".join(f"{visible(f'{features}: {one}')}\n" for one in odd))
    sys.stdout.write(f'Evaluating NodeFeatureRule "{rules}" against NodeFeature "{features}"\n')
    return try_rules(objects, found).report(f'NodeFeatureRule "{rules}"', f'NodeFeature "{features}"')
