"""``gitsync agent bom``: what each agent of a folder consists of, with the commits of its prompts."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from gitsync.agents.contract.lock import AgentContract, ContractLock
from gitsync.cli.main import app
from gitsync.render.yaml.writer import write, write_all
from tests.agents.contract.factories import contract_of, world
from tests.agents.factories import agent, system
from tests.git_repository import GitRepo

DIGEST = f"sha256:{'0' * 64}"
TOOL = {"name": "tickets", "type": "MCP", "mcp": {"url": "https://tools.example/mcp"}, "allow": ["search"]}
TRIAGE = agent(
    "triage",
    prompt={"configMapKeyRef": {"name": "prompts", "key": "system.md"}},
    tools=[TOOL],
    runtime={"image": f"example.com/triage:1@{DIGEST}"},
)
DESK = system({"name": "front", "template": {"spec": agent(prompt={"text": "Greet."})["spec"]}})
KUSTOMIZATION = """\
resources: [agents.yaml]
generatorOptions: {disableNameSuffixHash: true}
configMapGenerator:
- {name: prompts, namespace: shop, files: [system.md]}
"""


def files(prompt: str) -> dict[str, str | bytes | None]:
    lock = ContractLock(agents={"shop/triage": contract_of(world())})
    return {
        "agents/kustomization.yaml": KUSTOMIZATION,
        "agents/agents.yaml": write_all([TRIAGE, DESK]),
        "agents/system.md": prompt,
        "agents/contracts.lock": write(lock.to_document()),
    }


def bom(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["agent", "bom", *map(str, arguments), "-o", "json"])
    assert done.exit_code == 0, done.output
    return {row["agent"]: row for row in json.loads(done.stdout)}


def sha256(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def test_each_part_has_its_digest_and_the_prompt_its_commit(tmp_path: Path) -> None:
    repository = GitRepo(tmp_path)
    first = repository.commit(files("Sort tickets."), push=False)
    second = repository.commit({"agents/system.md": "Sort tickets by urgency."}, push=False)
    folder = repository.work / "agents"
    (folder / "system.md").write_text("Not committed.")

    rows = bom(folder)

    assert rows.keys() == {"shop/triage", "shop/desk-front"}
    triage = rows["shop/triage"]
    assert (triage["image"], triage["digest"]) == ("example.com/triage:1", DIGEST)
    assert triage["models"] == [{"provider": "OpenAI", "id": "small", "endpoint": ""}]
    prompt = {"digest": sha256("Sort tickets by urgency."), "file": "agents/system.md", "commit": second}
    assert triage["prompt"] == prompt
    assert triage["tools"] == [
        {"name": "tickets", "type": "MCP", "url": "https://tools.example/mcp", "allow": ["search"]}
    ]
    assert [(part["kind"], part["name"]) for part in triage["contract"]] == [
        ("server", "tickets"),
        ("peer", "reviewer"),
        ("model", "model"),
    ]
    assert rows["shop/desk-front"]["prompt"] == {
        "digest": sha256("Greet."),
        "file": "agents/agents.yaml",
        "commit": first,
    }
    assert rows["shop/desk-front"]["contract"] == []


def test_another_definition_in_the_lock_is_another_digest(tmp_path: Path) -> None:
    answers = world()
    answers["tools"][0]["description"] = "Find."
    digests = []
    for contract in (contract_of(world()), contract_of(answers), AgentContract()):
        for path, text in files("Sort.").items():
            (tmp_path / Path(path).name).write_text(str(text))
        lock = ContractLock(agents={"shop/triage": contract})
        (tmp_path / "contracts.lock").write_text(write(lock.to_document()))
        digests.append([part["digest"] for part in bom(tmp_path, "triage")["shop/triage"]["contract"]])
    before, after, absent = digests
    assert before[0] != after[0]
    assert before[1:] == after[1:]
    assert absent == []


def test_outside_git_a_table_has_no_commits(tmp_path: Path) -> None:
    for path, text in files("Sort.").items():
        (tmp_path / Path(path).name).write_text(str(text))
    done = CliRunner().invoke(app, ["agent", "bom", str(tmp_path), "triage"])
    assert done.exit_code == 0, done.output
    (line,) = done.stdout.splitlines()[1:]
    assert sha256("Sort.").removeprefix("sha256:")[:12] in line
    assert "desk-front" not in line
    prompt = bom(tmp_path)["shop/triage"]["prompt"]
    assert prompt == {"digest": sha256("Sort."), "file": "system.md", "commit": ""}


def test_a_prompt_that_the_folder_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text(write(TRIAGE))
    assert bom(tmp_path)["shop/triage"]["prompt"] == {"source": "ConfigMap shop/prompts"}


def test_a_folder_without_such_an_agent_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text(write(TRIAGE))
    done = CliRunner().invoke(app, ["agent", "bom", str(tmp_path), "other"])
    assert (done.exit_code, "no Agent other" in done.output) == (2, True)
