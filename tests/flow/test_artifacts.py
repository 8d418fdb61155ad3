"""An OCI artifact as the source of an Application, on the sandbox: followed by a range, and applied again by digest."""

from __future__ import annotations

import json

from gitsync.integrations.artifacts import FLUX_LAYER
from tests.cosign import BUNDLE, bundle_layer, envelope, public, put_manifest, refer, sign_by_tag, signature
from tests.fakes.artifacts import ArtifactWeb, artifact_web, packed
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.waiting import until


def push(web: ArtifactWeb, version: str) -> str:
    """Push a version with one ConfigMap, and return its digest."""
    archive = packed({"deploy/web.yaml": config_map("web", version=version)})
    digest = web.push((FLUX_LAYER, archive), tag=version)
    _, body, _ = web.answers.get("/v2/team/web/tags/list", (200, b"{}", {}))
    web.put("/v2/team/web/tags/list", json.dumps({"tags": [*json.loads(body).get("tags", []), version]}))
    return digest


def test_an_artifact_is_followed_and_applied_again(world: World) -> None:
    def has(version: str, digest: str) -> bool:
        live = world.get("ConfigMap", "web") or {}
        status = world.status()
        return (
            live.get("data") == {"version": version}
            and status.get("phase") == "Synced"
            and digest in status["revision"]["message"]
        )

    with artifact_web() as web:
        first = push(web, "1.0.0")
        source = {"repoURL": f"oci://127.0.0.1:{web.port}/team/web", "revision": ">=1 <2", "path": "deploy"}
        world.application(source=source)
        world.start(git_http_hosts=f"127.0.0.1:{web.port}")
        until(lambda: has("1.0.0", first), describe=world.status)
        assert world.status()["revision"]["message"].startswith("web 1.0.0 sha256:")

        second = push(web, "1.1.0")
        push(web, "2.0.0")
        until(lambda: has("1.1.0", second), describe=world.status)

        world.application(source={**source, "revision": first})
        until(lambda: has("1.0.0", first), describe=world.status)

        # the registry has other content under the tag that is followed now
        world.application(source={**source, "revision": "1.1.0"})
        until(lambda: has("1.1.0", second), describe=world.status)
        moved = json.loads(web.answers["/v2/team/web/manifests/1.1.0"][1])
        moved["layers"][0]["digest"] = f"sha256:{'0' * 64}"
        web.put("/v2/team/web/manifests/1.1.0", json.dumps(moved))
        until(lambda: world.condition("SourceReady").get("status") == "False", describe=world.status)
        assert (world.get("ConfigMap", "web") or {})["data"] == {"version": "1.1.0"}


def test_only_signed_artifacts_are_applied(world: World) -> None:
    def has(version: str) -> bool:
        return (world.get("ConfigMap", "web") or {}).get("data") == {"version": version}

    def refusal() -> str:
        condition = world.condition("SourceReady")
        return str(condition.get("message")) if condition.get("status") == "False" else ""

    with artifact_web() as web:
        first = push(web, "1.0.0")
        world.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "keys", "namespace": NAMESPACE},
                "stringData": {"cosign.pub": public()},
            }
        )
        verify = {"mode": "SignedCommits", "secretRef": {"name": "keys"}}
        url = f"oci://127.0.0.1:{web.port}/team/web"
        world.application(source={"repoURL": url, "revision": ">=1 <2", "path": "deploy", "verify": verify})
        world.start(git_http_hosts=f"127.0.0.1:{web.port}")
        until(lambda: "it is not signed" in refusal(), describe=world.status)
        assert not world.get("ConfigMap", "web")

        sign_by_tag(web, first, signature(first))
        until(lambda: has("1.0.0"), describe=world.status)

        # with the signature of the version before
        second = push(web, "1.1.0")
        sign_by_tag(web, second, signature(first))
        until(lambda: f"it is the one of {first}" in refusal(), describe=world.status)
        assert has("1.0.0")

        refer(web, second, (BUNDLE, put_manifest(web, bundle_layer(envelope(second)))))
        until(lambda: has("1.1.0"), describe=world.status)
