"""What is fuzzed: functions of the bytes of an attacker, which return or raise the errors that users see."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.gate.policy_files import parse_policy
from gitsync.gate.validation import check_manifests, check_rules, parse_rules, validate
from gitsync.kube import cel
from gitsync.merge.field_manager import Write, apply_object
from gitsync.merge.schema import builtin, kind_schema
from gitsync.merge.typed import TypedError
from gitsync.objects.application import GitSource
from gitsync.objects.manifest import Manifest
from gitsync.objects.urls import matches_url, repository_key
from gitsync.render.build import build
from gitsync.render.yaml.reader import read_all
from gitsync.server.app import create_app
from gitsync.source.validation import check_source
from tests.asgi_server import run_apart
from tests.render.factories import DEPLOYMENT, config_map
from tests.render.kustomize_cases import MemoryTree
from tests.server.fakes import application, engine, resource

Target = Callable[[bytes], object]
SECRET = "a secret"
REVIEW = "/api/v1/applications/gitsync/shop/review"
POD: Manifest = {"spec": {"containers": [{"name": "a", "image": "b@sha256:c", "env": [{"name": "A", "value": "1"}]}]}}


def read_yaml(data: bytes) -> None:
    """Read a file of manifests."""
    with contextlib.suppress(InvalidInput):
        read_all(data, "a.yaml")


def build_kustomization(data: bytes) -> None:
    """Build a folder whose kustomization file is the input."""
    files = {
        "kustomization.yaml": data,
        "r.yaml": DEPLOYMENT.encode(),
        "c.yaml": config_map("c", a="1").encode(),
        "p.yaml": b"- {op: add, path: /data/x, value: y}\n",
        "base/kustomization.yaml": b"resources: [b.yaml]\n",
        "base/b.yaml": config_map("b", k="v").encode(),
    }
    with contextlib.suppress(InvalidInput):
        build(MemoryTree(files), "")


def merge_objects(data: bytes) -> None:
    """Apply two documents one after the other, as two field managers."""
    with contextlib.suppress(InvalidInput, TypedError):
        live: Manifest | None = None
        for number, manifest in enumerate(read_all(data, "a.yaml")[:4]):
            if not isinstance(manifest, dict) or check_manifests([manifest]):
                return
            schema = kind_schema(builtin(), manifest)
            if schema is None or validate(manifest, schema):
                return
            live = apply_object(live, manifest, schema, Write(f"m{number % 2}", "2026-01-01T00:00:00Z"), force=True)


def check_urls(data: bytes) -> None:
    """Admit a source, and match its URL with the patterns of a policy."""
    first, _, second = data.decode(errors="replace").partition("\n")
    with contextlib.suppress(InvalidInput):
        check_source(GitSource.model_construct(repo_url=first, revision=second or "main", path=second or "."))
        repository_key(first)
    for pattern in ("https://*.example.com/team/*", "git@example.com:*", second):
        matches_url(pattern, first)


def evaluate_cel(data: bytes) -> None:
    """Compile an expression, and evaluate it over a Pod."""
    with contextlib.suppress(ValueError):
        cel.holds(data.decode(errors="replace"), POD)


def read_policy(data: bytes) -> None:
    """Read a file of policies, and check a manifest by its rules."""
    with contextlib.suppress(InvalidInput):
        for document in read_all(data, "p.yaml"):
            if not isinstance(document, dict):
                raise InvalidInput("kind must be Policy", location="p.yaml")
            parse_policy(document, "p.yaml")
            check_rules(parse_rules(document, "p.yaml"), [{"apiVersion": "v1", "kind": "Pod", **POD}])


class Dashboard:
    """The dashboard as an ASGI application, with an Application whose plan waits."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="gitsync-fuzz-"))
        held = application(resources=[resource("a", sync="OutOfSync")], held=("waits for an approval",))
        self._app: Any = create_app(engine(folder, [held]), webhook_secret=SECRET)

    def push(self, data: bytes) -> None:
        """Send the input as a signed payload of each provider."""
        signature = hmac.new(SECRET.encode(), data, hashlib.sha256).hexdigest()
        for name, headers in {
            "github": {"x-hub-signature-256": f"sha256={signature}"},
            "gitea": {"x-gitea-signature": signature},
            "bitbucket": {"x-hub-signature": f"sha256={signature}"},
            "gitlab": {"x-gitlab-token": SECRET},
        }.items():
            for kind in ("application/json", "application/x-www-form-urlencoded"):
                self._post(f"/webhook/{name}", data, {**headers, "content-type": kind})

    def review(self, data: bytes) -> None:
        """Send the input as the body of a review."""
        self._post(REVIEW, data, {"content-type": "application/json"})

    def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        sent: list[Mapping[str, Any]] = []
        run_apart(self._call(path, body, headers, sent))
        status = sent[0]["status"]
        assert status < 500, f"{path} answered {status}: {sent[1:]}"

    async def _call(self, path: str, body: bytes, headers: Mapping[str, str], sent: list[Mapping[str, Any]]) -> None:
        scope = {
            "type": "http", "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode(),
            "query_string": b"", "root_path": "", "scheme": "http", "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "headers": [(b"host", b"127.0.0.1"), *((name.encode(), text.encode()) for name, text in headers.items())],
        }  # fmt: skip

        async def receive() -> Mapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)


TARGETS: Mapping[str, Callable[[], Target]] = {
    "yaml": lambda: read_yaml,
    "kustomization": lambda: build_kustomization,
    "merge": lambda: merge_objects,
    "url": lambda: check_urls,
    "cel": lambda: evaluate_cel,
    "policy": lambda: read_policy,
    "webhook": lambda: Dashboard().push,
    "json": lambda: Dashboard().review,
}
"""Each target by the folder of its corpus, made when it is run."""
