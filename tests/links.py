"""Read the words of a page, and follow every link of a dashboard."""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

_LINK = re.compile(r'href="(/[^"#]*)')
_OBJECT = re.compile(r"/object[/?]")
_NOT_FOLLOWED = re.compile(r"^/(static/|audit\.jsonl|view\?)")
"""Files, and choices of how pages look, which lead back to the page."""


def prose(page: str) -> str:
    """Return the words of a page without its elements, one space between them."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", page)).split())


def links(page: str) -> list[str]:
    """Return the links of a page to this dashboard, without fragments."""
    return [html.unescape(link) for link in _LINK.findall(page)]


@dataclass(frozen=True, slots=True)
class Followed:
    """The links that were followed, with the page that each was first on, and those that led to no page."""

    pages: Mapping[str, str]
    failures: Mapping[str, tuple[int, str]]
    """Status and page, by link."""


def follow(get: Callable[[str], tuple[int, str]], *, except_for: Container[str] = ()) -> Followed:
    """
    Follow every link of every page, from home, wall and the comparison on.

    ``get`` returns status and text of a path; ``except_for`` are paths without their query.
    """
    pages = dict.fromkeys(("/", "/wall", "/changes/compare"), "the menu")
    waiting = deque(pages)
    failures = {}
    while waiting:
        path = waiting.popleft()
        status, text = get(path)
        # a page that no longer has the link is newer than it: such as that of a Pod which was replaced meanwhile
        if status >= 400 and (pages[path] not in pages or path in links(get(pages[path])[1])):
            failures[path] = (status, pages[path])
        is_filtered = "?" in path and not _OBJECT.search(path)  # facets combine without end
        for link in () if is_filtered else links(text):
            if link not in pages and not _NOT_FOLLOWED.match(link) and link.partition("?")[0] not in except_for:
                pages[link] = path
                waiting.append(link)
    return Followed(pages, failures)
