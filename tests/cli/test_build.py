from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Gitsync
from tests.cli.factories import DEPLOYMENT, write
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git
from tests.sops_encryption import Sealer, new_key

OVERLAYS = Path(__file__).resolve().parents[2] / "overlays"


def config_map(name: str, value: str = "x") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{key: {value}}}\n"


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize("overlay", ["dev", "staging", "prod"])
def test_it_prints_the_bytes_of_kubectl(gitsync: Gitsync, overlay: str) -> None:
    theirs = subprocess.run(["kubectl", "kustomize", OVERLAYS / overlay], capture_output=True, text=True, check=True)

    assert gitsync("build", OVERLAYS / overlay).out == theirs.stdout


def test_several_paths_come_in_order_as_yaml_or_json(gitsync: Gitsync, tmp_path: Path) -> None:
    write(tmp_path, {"a/a.yaml": config_map("a"), "b/b.yaml": config_map("b")})

    names = [
        item["metadata"]["name"]
        for item in json.loads(gitsync("build", tmp_path / "b", tmp_path / "a", "-o", "json").out)
    ]
    assert names == ["b", "a"]
    assert gitsync("build", tmp_path / "a", tmp_path / "b").out.count("---\n") == 1
    both = [gitsync("build", tmp_path / name, "-o", "json").out for name in "ab"]
    (tmp_path / "ab").mkdir()
    for name in "ab":
        (tmp_path / "ab" / f"{name}.yaml").write_text(config_map(name))
    assert gitsync("build", tmp_path / "ab", "-o", "json").out == f"{both[0][:-3]},{both[1][1:]}"
    assert gitsync("build", tmp_path / "a", tmp_path / "b", "-o", "json").out == f"{both[0][:-3]},{both[1][1:]}"


def test_a_revision_is_read_from_git(gitsync: Gitsync, tmp_path: Path) -> None:
    repo = GitRepo(tmp_path)
    first = repo.commit({"app/a.yaml": config_map("a", "old")})
    repo.commit({"app/a.yaml": config_map("a", "new")})

    assert "key: old" in gitsync("build", repo.work / "app", "--rev", first[:10]).out
    assert "key: new" in gitsync("build", repo.work / "app").out
    assert gitsync("build", repo.work / "app", "--rev", "nothing").code == 2


def test_one_bad_path_does_not_hide_another(gitsync: Gitsync, tmp_path: Path) -> None:
    write(tmp_path, {"a/a.yaml": "a: [", "b/b.yaml": "b: [", "c/c.yaml": config_map("c")})

    done = gitsync("build", *(tmp_path / name for name in "abc"))

    assert done.code == 2
    assert done.out == ""
    assert [("a/a.yaml" in line, "b/b.yaml" in line) for line in done.err.splitlines()] == [
        (True, False),
        (False, True),
    ]


def test_files_outside_git_are_named_as_the_path_was_typed(
    gitsync: Gitsync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"over/kustomization.yaml": "resources: [../base, b.yaml]\n", "over/b.yaml": "b: ["})
    write(tmp_path, {"base/kustomization.yaml": "resources: [a.yaml]\n", "base/a.yaml": "a: ["})

    def output(path: object) -> list[str]:
        lines = gitsync("build", path, "--check").err.splitlines()
        return [line.removeprefix("gitsync: ").partition(":")[0] for line in lines]

    monkeypatch.chdir(tmp_path)
    assert output("over") == output("./over/") == ["base/a.yaml", "over/b.yaml"]
    assert output(tmp_path / "over") == ["base/a.yaml", f"{tmp_path}/over/b.yaml"]
    monkeypatch.chdir(tmp_path / "over")
    assert output(".")[1] == "b.yaml"


def test_a_check_of_what_is_well_prints_nothing(gitsync: Gitsync, tmp_path: Path) -> None:
    write(tmp_path, {"web.yaml": DEPLOYMENT})

    done = gitsync("build", tmp_path, "--check")

    assert (done.code, done.out, done.err) == (0, "", "")


def test_a_check_names_every_file_that_is_wrong(gitsync: Gitsync, tmp_path: Path) -> None:
    files = {
        "kustomization.yaml": "resources:\n- one.yaml\n- two.yaml\n- gone.yaml\n- base\n",
        "one.yaml": "a: [",
        "two.yaml": "kind: ConfigMap\n",
        "base/kustomization.yaml": "resources: [three.yaml]\n",
        "base/three.yaml": "b: {",
    }

    output = gitsync("build", write(tmp_path, files), "--check").err.splitlines()

    assert len(output) == 4
    assert [
        name
        for name in ("one.yaml:", "two.yaml:", "gone.yaml", "base/three.yaml:")
        if any(name in line for line in output)
    ] == [
        "one.yaml:",
        "two.yaml:",
        "gone.yaml",
        "base/three.yaml:",
    ]


def test_a_check_goes_on_after_every_step_that_fails(gitsync: Gitsync, tmp_path: Path) -> None:
    files = {
        "kustomization.yaml": "resources: [web.yaml, list.yaml]\ncomponents: [gone]\nconfigMapGenerator:\n"
        "- name: a\n  files: [no.txt]\n- name: b\n  literals: [x]\npatches:\n- path: lost.yaml\n"
        "- target: {kind: Deployment}\n  patch: '- {op: remove, path: /spec/nothing}'\n"
        "- target: {kind: Deployment}\n  patch: 'a: ['\n"
        "replacements:\n- {source: {kind: Secret}, targets: [{select: {kind: Deployment}}]}\n",
        "web.yaml": DEPLOYMENT.replace("image:", "imagge:"),
        "list.yaml": "metadata: {name: a}\n---\nkind: ConfigMap\n",
    }

    output = gitsync("build", write(tmp_path, files), "--check").err

    for place in (
        "list.yaml:1: the object has no kind",
        "list.yaml:3: the ConfigMap has no metadata.name",
        "kustomization.yaml:2: gone does not exist",
        "kustomization.yaml:4: configMapGenerator a",
        "kustomization.yaml:6: configMapGenerator b",
        "kustomization.yaml:9: lost.yaml does not exist",
        "kustomization.yaml:10: ",
        "kustomization.yaml:12:",
        "kustomization.yaml:15: no resource matches the source",
        "web.yaml:12: Deployment web: .spec.template.spec.containers",
    ):
        assert f"/{place}" in output
    assert len(output.splitlines()) == 10


def test_a_check_names_every_unknown_field_and_every_plain_file(gitsync: Gitsync, tmp_path: Path) -> None:
    write(tmp_path, {"a/kustomization.yaml": "resourcs: []\nimagess: []\nnamespace: 1\n"})
    write(
        tmp_path, {"b/one.yaml": "a: [", "b/two.yaml": "b: {", "b/web.yaml": DEPLOYMENT.replace("replicas: 2", "x: 2")}
    )

    output = gitsync("build", tmp_path / "a", tmp_path / "b", "--check").err.splitlines()

    places = [f"a/kustomization.yaml:{line}: " for line in (1, 2, 3)]
    places += [f"b/{name}:" for name in ("one.yaml", "two.yaml", "web.yaml")]
    assert [place in line for place, line in zip(places, output, strict=True)] == [True] * 6


def test_a_check_knows_the_schemas_and_where_a_field_was_set(gitsync: Gitsync, tmp_path: Path) -> None:
    files = {
        "kustomization.yaml": "resources: [web.yaml]\npatches:\n- path: p.yaml\n",
        "web.yaml": DEPLOYMENT.replace("image:", "imagge:"),
        "p.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: many\n",
    }

    done = gitsync("build", write(tmp_path, files), "--check")

    assert done.code == 2
    assert any("p.yaml:5: Deployment web: .spec.replicas" in line for line in done.err.splitlines())
    assert any("web.yaml:12: Deployment web: " in line and "imagge" in line for line in done.err.splitlines())


def test_a_check_knows_what_the_controller_refuses(gitsync: Gitsync, tmp_path: Path) -> None:
    files = {
        "flag.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: flag}\ndata: {debug: no}\n",
        "wave.yaml": config_map("wave").replace(
            "{name: wave}", "{name: wave, annotations: {gitsync.dev/sync-wave: x}}"
        ),
        "none.yaml": "---\nkind: Pet\nmetadata: {name: rex}\n",
    }

    output = gitsync("build", write(tmp_path, files), "--check").err.splitlines()

    assert [line.partition(f"{tmp_path.name}/")[2].partition("; ")[0] for line in output] == [
        "flag.yaml:1: ConfigMap flag: data.debug is no: a string for some readers of YAML, true or false for others",
        "none.yaml:2: Pet default/rex: has no apiVersion, kind or metadata.name",
        "wave.yaml:1: ConfigMap wave: annotation gitsync.dev/sync-wave: 'x' is invalid",
    ]


def test_a_check_knows_the_rules_of_agents(gitsync: Gitsync, tmp_path: Path) -> None:
    agent = (
        "apiVersion: agents.gitsync.dev/v1alpha1\nkind: Agent\nmetadata: {name: a}\n"
        "spec:\n  model: {provider: OpenAI, id: x}\n  runtime:\n    image: helper\n"
    )
    done = gitsync("build", write(tmp_path, {"a.yaml": agent}), "--check")
    assert done.code != 0
    assert "a.yaml:7: Agent a: .spec.runtime.image" in done.err


def test_a_check_names_the_line_of_an_item_that_is_there_twice(gitsync: Gitsync, tmp_path: Path) -> None:
    helper = "apiVersion: agents.gitsync.dev/v1alpha1\nkind: Agent\nmetadata: {name: helper}\nspec:\n"
    helper += "  model: {provider: OpenAI, id: small}\n  runtime:\n    image: helper:1\n    sidecars:\n"
    helper += "    - {name: proxy, image: proxy:1}\n    - {name: other, image: other:1}\n"
    write(tmp_path, {"a.yaml": f"{helper}    - {{name: proxy, image: proxy:2}}\n", "b.yaml": DEPLOYMENT})
    env = "        env:\n        - {name: A, value: a}\n        - {name: A, value: b}\n"
    write(tmp_path, {"b.yaml": f"{DEPLOYMENT.rstrip()}\n{env}"})

    agent, deployment = gitsync("build", tmp_path, "--check").err.splitlines()

    assert agent.endswith(
        "/a.yaml:11: Agent helper: .spec.runtime.sidecars[2]: another item has the name proxy too;"
        " give each item a name of its own"
    )
    assert 'duplicate entries for key [name="A"]' in deployment


def test_a_check_follows_the_references_of_agents(gitsync: Gitsync, tmp_path: Path) -> None:
    spec = {
        "model": {"provider": "OpenAI", "id": "x", "credentials": {"secretKeyRef": {"name": "keys", "key": "openai"}}},
        "prompt": {"configMapKeyRef": {"name": "texts", "key": "prompt.md"}},
        "evaluation": {"cases": {"name": "cases", "key": "cases.jsonl"}},
        "contract": {"lock": {"name": "contract", "key": "contracts.lock"}},
        "budget": {"agent": {"costPerDay": "5"}, "prices": {"name": "prices", "key": "prices.json"}},
        "runtime": {
            "image": "helper:1",
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "a"}}}],
        },
    }
    agent = {"apiVersion": "agents.gitsync.dev/v1alpha1", "kind": "Agent", "metadata": {"name": "a"}, "spec": spec}
    objects = {
        "keys": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": {"anthropic": "eA=="}},
        "texts": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "texts-abcdef0123"}, "data": {}},
        "cases": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "cases"},
            "data": {"cases.jsonl": "{}"},
        },
        "contract": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "contract"},
            "data": {"contracts.lock": "version: 1\nagents: {shop/b: {}}\n"},
        },
        "prices": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "prices"},
            "data": {"prices.json": '{"x": {"input": 1}}'},
        },
    }
    files = {f"{name}.yaml": yaml.safe_dump(value) for name, value in {"agent": agent, **objects}.items()}

    done = gitsync("build", write(tmp_path, files), "--check")

    assert [line.partition("agent.yaml")[2].partition("Agent a: ")[2] for line in done.err.splitlines()] == [
        "ConfigMap texts is named texts-abcdef0123 here; add a nameReference by configurations of the kustomization",
        "Secret keys has no member openai",
        "cases/cases.jsonl:1.name: is required; add it",
        'prices/prices.json: is not a table of prices; write {"model": {"input": 0.6, "output": 2.4}}, the prices of a'
        " million tokens",
        "contract/contracts.lock: has no entry for a; gitsync agent lock writes it",
    ]


def test_a_check_leaves_alone_what_is_sealed(gitsync: Gitsync, tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "aGVsbG8="}}
    sealed = Sealer(new_key()[0].to_public(), ("data", "stringData")).file(secret)

    done = gitsync("build", write(tmp_path, {"s.yaml": sealed}), "--check")

    assert (done.code, done.err) == (0, "")


def test_a_check_knows_the_definitions_that_come_along(gitsync: Gitsync, tmp_path: Path) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Pet", "plural": "pets"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"legs": {"type": "integer"}}}},
                }
            ],
        },
    }
    pet = "apiVersion: example.com/v1\nkind: Pet\nmetadata: {name: rex}\nlegs: four\n"

    done = gitsync("build", write(tmp_path, {"crd.json": json.dumps(definition), "pet.yaml": pet}), "--check")

    assert "pet.yaml:4: Pet rex: .legs" in done.err


def test_a_folder_of_another_repository_is_built_where_it_is_allowed(gitsync: Gitsync, tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "git")
    repo.commit({"base/kustomization.yaml": "resources: [a.yaml]", "base/a.yaml": config_map("a")})
    git(repo.work, "push", "-q", "origin", "HEAD:refs/tags/v1")
    with GitServer(tmp_path / "git") as server:
        reference = f"{server.url('origin.git')}//base?ref=v1"
        write(tmp_path / "app", {"kustomization.yaml": f"namePrefix: my-\nresources: ['{reference}']\n"})
        offline = gitsync("build", tmp_path / "app")
        assert offline.code == 2
        assert "is remote, and remote content is not allowed; copy it into the repository, or allow" in offline.err
        assert not server.requests
        refused = gitsync("build", tmp_path / "app", "--remote", "https://github.com/*")
        assert "is remote, and its content is not allowed by policy --remote" in refused.err
        allowed = ("--remote", server.url("*"))
        assert "name: my-a\n" in gitsync("build", tmp_path / "app", *allowed).out
        assert gitsync("build", tmp_path / "app", "--check", *allowed).code == 0
        explained = gitsync("explain", tmp_path / "app", "ConfigMap/my-a", "data.key", *allowed).out
        assert "/origin.git@" in explained


def test_a_check_names_kinds_that_kubernetes_does_not_have(gitsync: Gitsync, tmp_path: Path) -> None:
    removed = "apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: p}\n"
    other = "apiVersion: example.com/v1\nkind: Deploymnet\nmetadata: {name: o}\n"
    write(
        tmp_path,
        {"web.yaml": DEPLOYMENT.replace("kind: Deployment", "kind: Deploymnet"), "p.yaml": removed, "o.yaml": other},
    )

    done = gitsync("build", tmp_path, "--check")

    assert done.code == 2
    assert "Kubernetes has no kind Deploymnet in apps/v1; write kind: Deployment" in done.err
    assert len(done.err.splitlines()) == 1
