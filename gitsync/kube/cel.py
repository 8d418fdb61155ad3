"""CEL expressions over one value: ``object`` in policies and health checks, ``self`` in rules of schemas."""

from __future__ import annotations

import functools
from typing import Any

from gitsync.objects.manifest import Manifest


def holds(expression: str, value: Manifest, name: str = "object") -> bool:
    """
    Whether an expression is true for a value; one that cannot be evaluated, such as on an absent field, is not.

    Raise ValueError for an expression that does not compile.
    """
    # An evaluation error comes back as a value that counts as true, so nothing but True will do.
    return compiled(expression, name).eval(data={name: value}).value() is True


@functools.lru_cache(maxsize=512)
def compiled(expression: str, name: str = "object") -> Any:
    """Compile an expression; raise ValueError, in one line, for one that is not valid CEL."""
    try:
        return _environment(name).compile(expression)
    except RuntimeError as error:
        raise ValueError(str(error).splitlines()[0]) from error


@functools.cache
def _environment(name: str) -> Any:
    # late: the library is large, and most installations have no expressions
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_strings

    # Expressions of users lack the string functions: some of them make values of any size.
    extensions = [ext_strings.ExtStrings()] if name == "self" else []
    return cel.NewEnv(variables={name: cel.Type.DYN}, extensions=extensions)
