"""Who set a value by ``images:`` or ``replicas:``: pages, API and commands agree with ``git blame``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gitsync.sandbox.server import Sandbox
from tests.asgi_server import serve
from tests.cli.conftest import Gitsync
from tests.flow.environment import World
from tests.flow.factories import deployment
from tests.links import prose
from tests.waiting import until

OVERLAY = """\
resources:
- web.yaml
commonAnnotations:
  team: shop
images:
- name: web
  newName: registry.example.com/web
  newTag: "{tag}"
replicas:
- name: web
  count: {count}
"""
FILE = "shop/kustomization.yaml"
FIELDS = {".spec.replicas": "count: 5", '.spec.template.spec.containers[name="web"].image': 'newTag: "2"'}
"""The changed fields, with the line of the file that changed each."""


def blamed(world: World, text: str) -> tuple[str, str, str]:
    """Return place, commit and author of the line with a text, by ``git blame``."""
    lines = [line.strip() for line in (world.repo.clone / FILE).read_text(encoding="utf-8").splitlines()]
    number = lines.index(text) + 1
    blame = world.repo.git("blame", "-L", f"{number},{number}", "--line-porcelain", FILE)
    (author,) = re.findall(r"^author (.*)$", blame, re.MULTILINE)
    return f"{FILE}:{number}", blame.partition(" ")[0], author


@pytest.mark.parametrize("field", FIELDS)
def test_every_place_names_the_line_commit_and_author_of_git_blame(
    tmp_path: Path, gitsync: Gitsync, field: str
) -> None:
    with Sandbox() as sandbox:
        world = World(tmp_path, sandbox)
        (tmp_path / "data").mkdir()
        sandbox.kubeconfig(tmp_path / "data" / "kubeconfig")  # where commands find it, as in the demo
        world.namespace("shop")
        first = world.repo.commit("Open", {"shop/web.yaml": deployment("web"), FILE: OVERLAY.format(tag=1, count=1)})
        world.application(risk={"approval": "Moderate"})
        world.start()
        until(lambda: world.status().get("phase") == "AwaitingApproval", 10, world.status)
        world.approve()
        world.synced(first)
        (world.repo.clone / FILE).write_text(OVERLAY.format(tag=2, count=5))
        world.repo.git("commit", "-qam", "Change both", "--author", "Mallory <mallory@example.com>")
        world.repo.push()
        until(lambda: world.status()["phase"] == "AwaitingApproval", 10, world.status)

        where, commit, author = blamed(world, FIELDS[field])
        assert author == "Mallory"
        by_page = f"set in {where} by Mallory in {commit[:7]} Change both"
        with serve(world.dashboard()) as web:
            for path in ("plan", "diff", "object?ref=apps/Deployment/shop/web"):
                assert by_page in prose(web.ask(f"/apps/gitsync/shop/{path}").text), path
            (step,) = json.loads(web.ask("/api/v1/applications/gitsync/shop/plan?origins=true").text)["steps"]
        lines = {line["field"]: (line["where"], line["commit"], line["author"]) for line in step["origins"]}
        assert lines[field] == (where, commit, author)
        for command in ("diff", "plan"):
            done = gitsync(command, "shop", "--data", tmp_path / "data", "--allow-file-urls")
            (line,) = (text for text in done.out.splitlines() if text.strip().startswith(field))
            assert line.endswith(f"<- {where}"), command
        world.close()
