"""CEL expressions over one value: ``object`` in policies and health checks, ``self`` in rules of schemas."""

from __future__ import annotations

import functools
import re
from typing import Any

from gitsync.objects.manifest import Manifest

# Comments and literals of CEL (cel-spec, doc/langdef.md): what is in them is not code. A quote in a comment starts no
# literal, and a backslash in a raw literal does not escape its end.
TEXTS = re.compile(
    r"""(?sx)
    //[^\n]*
    | [bB]?[rR](?: '''.*?''' | \"\"\".*?\"\"\" | '[^'\n]*' | "[^"\n]*" )
    | [bB]?(?: '''(?:\\.|[^\\])*?''' | \"\"\"(?:\\.|[^\\])*?\"\"\" | '(?:\\.|[^'\\\n])*' | "(?:\\.|[^"\\\n])*" )
    """
)
# `all`, `exists` and `exists_one` yield a boolean whatever their variable is used for
_MACRO = re.compile(r"\.\s*(?:map|filter)\s*\(\s*(?P<variable>[A-Za-z_]\w*)\s*,")
_ITERATES = re.compile(r"\.\s*(?:all|exists|exists_one|existsOne|map|filter)\s*\(")
_MOST_ITERATIONS = 10_000
_MOST_CONCATENATIONS = 8
# with the objects of at most 1.5 MB that etcd stores, values of about 100 MB
_MOST_GROWTH = 8


def holds(expression: str, value: Manifest, name: str = "object") -> bool:
    """
    Whether an expression is true for a value; one that cannot be evaluated, such as on an absent field, is not.

    Raise ValueError for an expression that does not compile.
    """
    program = compiled(expression, name)
    try:
        # An evaluation error comes back as a value that counts as true, so nothing but True will do.
        return program.eval(data={name: value}).value() is True
    except RuntimeError:  # the library raises this one: more than 10,000 iterations
        return False


@functools.lru_cache(maxsize=512)
def compiled(expression: str, name: str = "object") -> Any:
    """
    Compile an expression; raise ValueError, in one line, for one that is not valid CEL.

    Also for one of a user, over ``object``, that can make values of many times the size of the object: the library
    limits iterations (10,000), not memory, and each ``.map(a, a + a)`` doubles a text.
    """
    if name != "self":
        _check_growth(expression)
    try:
        return _environment(name).compile(expression)
    except RuntimeError as error:
        raise ValueError(str(error).splitlines()[0]) from error


def _check_growth(expression: str) -> None:
    """Raise ValueError where concatenations and comprehensions multiply the size of a value beyond a limit."""
    code = TEXTS.sub("''", expression)
    if code.count("+") > _MOST_CONCATENATIONS:
        raise ValueError(f"it has more than {_MOST_CONCATENATIONS} signs +, which can make values of any size")
    growth = 1
    for macro in _MACRO.finditer(code):
        variable = re.compile(rf"\b{macro['variable']}\b")
        # the value of each item can be as large as all its uses together: [a, a] as well as a + a
        growth *= max(1, len(variable.findall(_argument(code, macro.end()))))
    if growth > _MOST_GROWTH:
        raise ValueError(
            "its maps use their variable so often that values can grow without a limit; use it once in each"
        )


def work_of(expression: str, value: Manifest) -> int:
    """
    Return an upper bound of the bytes that an evaluation reads: those of the value, for each of its iterations.

    The library limits iterations to 10,000, not time, and other threads wait meanwhile: ``contains`` takes 30 ms for a
    MiB.
    """
    code = TEXTS.sub("''", expression)
    macros = [(macro.end(), macro.end() + len(_argument(code, macro.end()))) for macro in _ITERATES.finditer(code)]
    depth = max((sum(begin <= start < end for begin, end in macros) for start, _ in macros), default=0)
    size, longest = _extent(value)
    # a list of the expression has at most one item more than there are commas
    iterations: int = max(longest, code.count(",") + 1) ** depth
    return size * min(iterations, _MOST_ITERATIONS)


def _extent(value: Any) -> tuple[int, int]:
    """Return about how many bytes the texts and names of a value have, and the length of its longest list or map."""
    size = longest = 0
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict | list):
            longest = max(longest, len(item))
            pending += item
            pending += item.values() if isinstance(item, dict) else ()
        else:
            size += len(item) if isinstance(item, str) else 8
    return size, longest


def _argument(code: str, start: int) -> str:
    """Return the rest of a macro's arguments, up to the parenthesis that closes it."""
    depth = 1
    for index in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[index], 0)
        if depth == 0:
            return code[start:index]
    return code[start:]


@functools.cache
def _environment(name: str) -> Any:
    # late: the library is large, and most installations have no expressions
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_strings

    # Expressions of users lack the string functions: some of them make values of any size.
    extensions = [ext_strings.ExtStrings()] if name == "self" else []
    return cel.NewEnv(variables={name: cel.Type.DYN}, extensions=extensions)
