"""The formatter of templates ends lines where a browser shows no whitespace, and what a page shows stays the same."""

from __future__ import annotations

import pytest
from jinja2 import DictLoader, Environment

from gitsync.server.templates import UnindentedLoader
from tools.format_templates import FOLDER, WIDTH, formatted

LONG = "word " * 30


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        pytest.param("<ul><li>a</li><li>b</li></ul>", ["<ul>", "  <li>a</li>", "  <li>b</li>", "</ul>"], id="blocks"),
        pytest.param("<p>a<b>b</b> {{ c }}</p>", ["<p>a<b>b</b> {{ c }}</p>"], id="inline elements stay together"),
        pytest.param(
            "{% if a %}<p>x</p>{% else %}<p>y</p>{% endif %}",
            ["{% if a %}", "  <p>x</p>", "{% else %}", "  <p>y</p>", "{% endif %}"],
            id="statements around blocks",
        ),
        pytest.param("<p>\n<pre>a\nb</pre>", ["<p>", "  <pre>a", "b</pre>"], id="a preformatted text is left alone"),
        pytest.param(
            "<p>a{% if b %} c{% endif %}.</p>", ["<p>a{% if b %} c{% endif %}.</p>"], id="statements in a text"
        ),
    ],
)
def test_lines_end_beside_blocks_only(source: str, lines: list[str]) -> None:
    assert formatted(source).splitlines() == lines


@pytest.mark.parametrize(
    "source",
    [
        f"<p>{LONG}<i>a</i>{{% if yes %}}b{{% endif %}}<i>c</i> {LONG}{{% if yes %}} d{{% endif %}} e {LONG}</p>",
        f'<p>{{% for item in items %}}<a href="{{{{ item }}}}" title="{LONG}">a</a>{{% endfor %}} {LONG}</p>',
        f"<p>{LONG}{{% if no %}} a{{% else %}}b{{% endif %}}{LONG}{{# a remark #}}c</p>",
        f'<input {{% if yes %}}checked{{% endif %}} value="{LONG}"{{% if no %}} disabled{{% endif %}} id="{LONG}">',
    ],
)
def test_a_long_text_is_rendered_as_before(source: str) -> None:
    shown = [" ".join(rendered(text).split()) for text in (source, formatted(source))]
    assert shown[0].replace("<p> ", "<p>").replace(" </p>", "</p>") == shown[1].replace("<p> ", "<p>").replace(
        " </p>", "</p>"
    )
    assert formatted(formatted(source)) == formatted(source)


def rendered(source: str) -> str:
    loader = DictLoader({"page": UnindentedLoader.without_indentation(source)})
    environment = Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, autoescape=True)
    return environment.get_template("page").render(yes=True, no=False, items=["x", "y"])


def test_the_templates_are_formatted() -> None:
    texts = {file.name: file.read_text() for file in FOLDER.glob("*.html")}
    assert len(texts) > 30
    assert [name for name, text in texts.items() if formatted(text) != text] == []
    longest = max(len(line) for text in texts.values() for line in text.splitlines() if "<pre" not in line)
    assert longest < 4 * WIDTH  # a sentence or a tag is never divided
