"""Docstrings below the fields of a model, which are help texts. They are read only when they are needed.

pydantic has the same (`use_attribute_docstrings`), but reads the source of every model at import: 60 ms of the start of
a worker, which shows no help.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import lru_cache


def help_of(model: type, field: str) -> str:
    """The docstring below the field in the class that declares it; empty if there is none."""
    for owner in model.__mro__:
        if field in vars(owner).get("__annotations__", {}):
            return field_docs(owner).get(field, "")
    return ""


@lru_cache(maxsize=64)
def field_docs(owner: type) -> dict[str, str]:
    """Field → docstring of the fields that a class itself declares. Reads: its source file; without it, none."""
    try:
        source = inspect.getsource(owner)
    except (OSError, TypeError):  # made at run time, or shipped as byte code alone
        return {}
    (definition,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for before, after in zip(definition.body, definition.body[1:], strict=False):
        match before, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = inspect.cleandoc(text).strip()
    return found
