"""All template functions by name: Go's own, and Sprig's text set without `env`, `expandenv`, `getHostByName`
and what `nfd.rules.template.refused_functions` lists.

Upstream documents: https://pkg.go.dev/text/template#hdr-Functions, https://masterminds.github.io/sprig/.
"""

from __future__ import annotations

from nfd.rules.template.function_calls import Library
from nfd.rules.template.functions import (
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

FUNCTIONS = Library()
for _module in (
    builtin, case, dates, dicts, encodings, lists, logic, numbers, paths, regexes, text, urls, versions,
):  # fmt: skip
    FUNCTIONS.update(_module.LIBRARY)
