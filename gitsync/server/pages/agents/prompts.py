"""Any two versions of an agent's prompts, word by word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as QueryParameter
from fastapi.responses import HTMLResponse

from gitsync.render.provenance.trace import place
from gitsync.server.backend import Backend
from gitsync.server.pages.agents.lists import SYNCS, agents_of, find_agent
from gitsync.server.pages.dependencies import PagesOf
from gitsync.server.rows.agents import FoundAgent, prompt_diff, prompt_history
from gitsync.server.rows.environments.declared import declared_prompts, fields_of
from gitsync.server.rows.environments.prompts import PastPrompts, PromptVersion, prompt_versions
from gitsync.services.text_versions import TextVersion, text_versions

router = APIRouter(prefix="/agents")

Version = Annotated[str, QueryParameter(max_length=600)]
_LINES = 300
"""Rows of two prompts that are compared."""
_FILE = re.compile(r":\d+$")


@router.get("/{namespace}/{name}/prompts", response_class=HTMLResponse)
def prompts(
    request: Request,
    pages: PagesOf,
    namespace: str,
    name: str,
    before: Version = "",
    after: Version = "",
    mode: str = "",
) -> HTMLResponse:
    """Compare two versions of an agent's prompts word by word, by default that of now with another."""
    versions = versions_of(pages.engine, namespace, name)
    keys = {one.key: one for one in versions}
    new = keys.get(after) or next(iter(versions), None)
    old = keys.get(before) or next((one for one in versions if new is not None and one.text != new.text), new)
    return pages.show(
        request,
        "agent_prompts.html",
        namespace=namespace,
        name=name,
        versions=versions,
        old=old,
        new=new,
        mode="split" if mode == "split" else "unified",
        rows=prompt_diff(old.text, new.text, _LINES) if old and new and old.text != new.text else (),
    )


def versions_of(backend: Backend, namespace: str, name: str) -> list[PromptVersion]:
    """Return the versions of an agent's prompts that can be compared."""
    known = agents_of(backend)
    found = find_agent(known, namespace, name)
    syncs = backend.records.history(found.application, limit=SYNCS)
    kept = prompt_history(found, backend.view.owned_by, syncs)
    return prompt_versions(found, known, PastPrompts(kept, _in_git(backend, found), syncs))


def _in_git(backend: Backend, found: FoundAgent) -> Mapping[str, Sequence[TextVersion]]:
    """Return the versions of each prompt in the history of the file that declares it, by the name of the prompt."""
    view = backend.view.application(found.application)
    app, plan = (view.application, view.plan) if view is not None else (None, None)
    if view is None or app is None or plan is None or not plan.revision:
        return {}
    prompts = declared_prompts(found, view)
    traces = backend.provenance.trace(app, plan.revision, fields_of(prompts))
    files = {one: _FILE.sub("", place(traces.get(one.ref, {}).get(one.field, ()))) for one in prompts}
    versions = backend.provenance.file_versions(app, plan.revision, set(files.values()) - {""})
    texts: dict[str, list[TextVersion]] = {}
    for one, file in files.items():
        texts.setdefault(one.name, []).extend(text_versions(versions.get(file, ()), one.text))
    return texts
