"""All template functions by name: Go's own, and Sprig's text set without `env`, `expandenv`, `getHostByName`
and what `nfd.rules.template.refused_functions` lists.

Upstream documents: https://pkg.go.dev/text/template#hdr-Functions, https://masterminds.github.io/sprig/.
"""

from __future__ import annotations

from nfd.rules.template.function_calls import FUNCTIONS
from nfd.rules.template.functions import (  # noqa: F401  # each adds its functions
    builtin,
    case,
    dates,
    dicts,
    encodings,
    lists,
    logic,
    numbers,
    paths,
    regexes,
    text,
    urls,
    versions,
)

__all__ = ["FUNCTIONS"]
