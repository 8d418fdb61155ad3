"""Dashboards of one process compile each template once, and again when it changes."""

from __future__ import annotations

from typing import Any

from jinja2 import DictLoader, Environment

from gitsync.server.templates import CompiledTemplates


class Compiler(Environment):
    """An environment that counts what it compiles."""

    compiled = 0

    def compile(self, *arguments: Any, **options: Any) -> Any:
        self.compiled += 1
        return super().compile(*arguments, **options)


def environments(*sources: str) -> list[Compiler]:
    shared = CompiledTemplates()
    return [Compiler(loader=DictLoader({"page": source}), bytecode_cache=shared) for source in sources]


def test_a_second_environment_compiles_nothing() -> None:
    first, second = environments("Hello {{ name }}", "Hello {{ name }}")

    assert (
        first.get_template("page").render(name="Ada") == second.get_template("page").render(name="Ada") == "Hello Ada"
    )
    assert (first.compiled, second.compiled) == (1, 0)


def test_a_changed_template_is_compiled_again() -> None:
    first, second = environments("Hello {{ name }}", "Goodbye {{ name }}")

    assert first.get_template("page").render(name="Ada") == "Hello Ada"
    assert second.get_template("page").render(name="Ada") == "Goodbye Ada"
