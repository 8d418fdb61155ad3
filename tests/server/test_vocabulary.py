"""One vocabulary: every state of the API has words, and pages, command line and documentation use those."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gitsync.cli.output import STYLES
from gitsync.objects.change import Risk
from gitsync.objects.health import Health
from gitsync.objects.phase import Phase
from gitsync.objects.record import Outcome
from gitsync.ports import StateEvent
from gitsync.server.queries.applications import SYNC_STATES
from gitsync.server.queries.timeline import KINDS
from gitsync.server.queries.words import KINDS as KIND_WORDS
from gitsync.server.queries.words import WORDS, sentence
from tests.server.conftest import Open
from tests.server.fakes import NOW, application, resource

ROOT = Path(__file__).resolve().parents[2]


def test_every_state_of_the_api_has_words() -> None:
    names = {*SYNC_STATES, *(item.value for kind in (Health, Phase, Outcome, Risk) for item in kind)}
    assert names - WORDS.keys() == set()
    assert set(KINDS) == KIND_WORDS.keys()


def test_the_command_line_colours_only_states_that_exist() -> None:
    assert STYLES.keys() - WORDS.keys() == set()


def test_the_documentation_has_the_words_and_names_of_the_pages() -> None:
    page = (ROOT / "docs" / "dashboard.md").read_text(encoding="utf-8")
    table = page.partition("| word | name |\n|---|---|\n")[2].partition("\n\n")[0]
    found = re.findall(r"^\| (.+) \| `(\w+)` \|$", table, re.MULTILINE)
    assert found == [(words, name) for name, words in WORDS.items()]


def test_no_page_shows_the_name_of_a_state_that_has_other_words(site: Open) -> None:
    view = application(resources=[resource("a", sync="OutOfSync")], sync="OutOfSync", held=("it waits",))
    opened = site([view])
    states = ("AwaitingApproval", "OutOfSync", "Missing", "Missing")
    opened.engine.view.kept = [StateEvent(1, NOW, "gitsync/shop", "application", "it waits", states=states)]
    for path in (
        "/apps/gitsync/shop/events",
        "/",
        "/apps",
        "/objects",
        "/approvals",
        "/wall",
        "/apps/gitsync/shop",
        "/apps/gitsync/shop/plan",
    ):
        text = re.sub(r"<[^>]*>", " ", opened.get(path).text)
        for name in ("OutOfSync", "AwaitingApproval", "ToPrune", "InvalidManifests", "OutsideWindow"):
            assert name not in text, (path, name)
    assert "Needs approval, out of sync and missing: it waits" in opened.get("/apps/gitsync/shop/events").text


@pytest.mark.parametrize(
    ("states", "expected"),
    [((), ""), (("Synced",), "Synced"), (("Synced", "Synced", "Healthy"), "Synced and healthy")],
)
def test_states_are_a_sentence(states: tuple[str, ...], expected: str) -> None:
    assert sentence(states) == expected


def test_a_choice_of_density_leads_back_to_the_same_page_with_its_query(site: Open) -> None:
    opened = site([application("shop", [resource("a")])])
    for path in ("/apps?q=state%3ASynced", "/apps/gitsync/shop/object/events?ref=%2FConfigMap%2Fshop%2Fa", "/drift"):
        (link,) = re.findall(r'href="(/view\?density=compact&amp;back=[^"]*)"', opened.get(path).text)
        chosen = opened.get(html.unescape(link))
        assert (chosen.status, chosen.headers["location"]) == (303, path)
        compact = opened.get(path, Cookie="gitsync-density=compact").text
        assert [text for text in (opened.get(path).text, compact) if '<body class="compact' in text] == [compact]
        back = re.findall(r'href="(/view\?density=[a-z]+&amp;back=[^"]*)"', compact)
        assert back == [link.replace("compact", "comfortable")]


def test_a_wall_is_grey_when_its_data_is_old_and_a_compact_view_is_kept(site: Open) -> None:
    opened = site([replace(application(), seen=NOW - timedelta(hours=1))])
    assert 'class="wall"' in opened.get("/wall").text, "a watched Application is as it was while nothing happens"
    opened.engine.found_problems = ("Applications cannot be watched: forbidden",)
    page = opened.get("/wall").text
    assert 'class="wall old"' in page
    assert "Applications cannot be watched: forbidden" in page
    chosen = opened.get("/view?density=compact&back=/apps")
    assert (chosen.status, chosen.headers["location"]) == (303, "/apps")
    assert '<body class="compact"' in opened.get("/apps", Cookie="gitsync-density=compact").text
    for wrong in ("density=huge", "density=compact&back=//evil.example", "density=compact&back=https://evil.example"):
        assert opened.get(f"/view?{wrong}").status == 422


@pytest.mark.parametrize("template", sorted((ROOT / "web" / "templates").glob("*.html")), ids=lambda path: path.name)
def test_a_count_that_may_be_one_has_its_noun_by_the_filter(template: Path) -> None:
    """As in ``{{ hidden|counted("more field") }}``; "1 more fields" was on eleven pages."""
    assert re.findall(r"\}\} (?:more|equal) [a-z]+s\b", template.read_text(encoding="utf-8")) == []


def test_a_page_does_not_repeat_a_reason_or_a_state(site: Open) -> None:
    held = application(
        resources=[resource("a", sync="OutOfSync", risk=Risk.DANGEROUS)], held=("1 dangerous step waits",)
    )
    opened = site([held])
    plan = opened.get("/apps/gitsync/shop/plan").text
    assert plan.partition("<main")[2].count("1 dangerous step waits") == 1
    # a card on a phone would read Synced, Synced
    opened.engine.view.views["gitsync/shop"] = application(resources=[resource("a")])
    assert '<td class="repeated">' in opened.get("/apps").text


@pytest.mark.parametrize(("count", "words"), [(1, "matches Git"), (2, "match Git")])
def test_counts_of_the_wall_agree_with_their_words(site: Open, count: int, words: str) -> None:
    text = site([application(f"shop-{number}") for number in range(count)]).get("/wall").text
    assert f"<b>{count}</b> {words}" in " ".join(text.split())
    assert "w-bad" not in text
