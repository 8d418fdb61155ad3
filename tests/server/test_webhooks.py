"""
Push events: accepted only with a signature, and only as a hint to fetch from Git.

Which repository the push events of each Git server name.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from select import select
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson
import pytest

from gitsync.objects.record import Push
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import EDIT_ACTION
from gitsync.server import webhooks
from gitsync.server.webhooks import image_names, listed_push, normal, repository_urls
from tests.server.conftest import Open, Site
from tests.server.fakes import application, changed, edited, resource

SECRET = "a secret"
PUSH = orjson.dumps({"repository": {"clone_url": "https://git.example.com/shop.git"}})
OTHER = orjson.dumps({"repository": {"clone_url": "https://git.example.com/mall.git"}})


def signature(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def signed(provider: str, body: bytes = PUSH, secret: str = SECRET) -> dict[str, str]:
    digest = signature(body, secret)
    return {
        "github": {"X-Hub-Signature-256": f"sha256={digest}"},
        "gitea": {"X-Gitea-Signature": digest},
        "forgejo": {"X-Forgejo-Signature": digest},
        "bitbucket": {"X-Hub-Signature": f"sha256={digest}"},
        "gogs": {"X-Gogs-Signature": digest},
        "gitlab": {"X-Gitlab-Token": secret},
        "azure-devops": basic(f"gitsync:{secret}"),
        "codecommit": basic(f":{secret}"),
    }[provider]


def basic(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(text.encode()).decode()}"}


def answer(site: Site, provider: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    found = site.web.ask(f"/webhook/{provider}", method="POST", body=body, headers=headers)
    return found.status, orjson.loads(found.text)


def push(site: Site, provider: str, body: bytes, headers: dict[str, str]) -> int:
    return answer(site, provider, body, headers)[0]


GIT_SERVERS = [name for name in webhooks.PROVIDERS if name != "registry"]


@pytest.mark.parametrize("provider", GIT_SERVERS)
def test_a_signed_push_looks_at_git_and_syncs_nothing_by_force(site: Open, provider: str) -> None:
    opened = site([application()], webhook_secret=SECRET, token="people sign in, webhooks do not")
    assert push(opened, provider, PUSH, signed(provider)) == 202
    assert push(opened, provider, OTHER, signed(provider, OTHER)) == 202
    assert opened.engine.requests.done == [("look", "gitsync/shop")]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed("github", secret="another"),
        signed("github", OTHER),
        {"X-Hub-Signature-256": signature(PUSH)},
        {"X-Hub-Signature-256": f"sha1={signature(PUSH)}"},
        {"X-Hub-Signature-256": f"sha256={signature(PUSH)}x"},
        {"X-Hub-Signature-256": "sha256="},
        {"X-Hub-Signature": f"sha256={signature(PUSH)}"},
        {"X-Hub-Signature-256": "sha256=\xe9"},
        signed("gitlab"),
    ],
)
def test_anything_else_is_refused_alike(site: Open, headers: dict[str, str]) -> None:
    opened = site([application()], webhook_secret=SECRET)
    assert push(opened, "github", PUSH, headers) == 401
    assert opened.engine.requests.done == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("gitsync:another"),
        basic(SECRET),
        {"Authorization": f"Bearer {SECRET}"},
        {"Authorization": SECRET},
        {"Authorization": "Basic !"},
        {"Authorization": "Basic"},
        {"Authorization": "Basic \xe9"},
    ],
)
@pytest.mark.parametrize("provider", ["azure-devops", "codecommit"])
def test_another_password_is_refused(site: Open, provider: str, headers: dict[str, str]) -> None:
    opened = site([application()], webhook_secret=SECRET)
    assert push(opened, provider, PUSH, headers) == 401
    assert opened.engine.requests.done == []


def test_few_large_bodies_are_stored_before_their_signature_is_known(site: Open) -> None:
    """Each connection sends all but the end of a large body, and holds what was received until then."""
    # each replica has limits and a memory of its own
    opened = site([application()], webhook_secret=SECRET, are_two=False)
    with ExitStack() as sockets:
        unfinished = [sockets.enter_context(unfinished_body(opened, 2 << 20)) for _ in range(6)]
        refused = [status_of(connection) for connection in unfinished if select([connection], [], [], 2)[0]]
        assert refused == [503] * 4
        assert push(opened, "github", PUSH, signed("github")) == 202, "small bodies are received meanwhile"


def test_a_body_that_does_not_arrive_is_given_up(site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "_SECONDS", 0.2)
    opened = site([application()], webhook_secret=SECRET)
    with unfinished_body(opened, 2 << 20) as connection:
        assert status_of(connection) == 408
    body = PUSH + b" " * (1 << 20)
    assert push(opened, "github", body, signed("github", body)) == 202, "its place is free again"


@contextmanager
def unfinished_body(opened: Site, size: int) -> Iterator[socket.socket]:
    """Send all of a body but its last bytes."""
    place = urlsplit(opened.web.url)
    with socket.create_connection((place.hostname, place.port), 10) as connection:
        headers = f"Host: {place.netloc}\r\nX-Hub-Signature-256: x\r\nContent-Length: {size}\r\n\r\n"
        head = f"POST /webhook/github HTTP/1.1\r\n{headers}"
        with suppress(ConnectionError):  # it is refused while it is sent
            connection.sendall(head.encode() + b"x" * (size - 10))
        yield connection


def status_of(connection: socket.socket) -> int:
    return int(connection.recv(64).split()[1])


def test_without_a_secret_there_is_no_endpoint(site: Open) -> None:
    opened = site([application()])
    assert push(opened, "github", PUSH, signed("github", secret="")) == 401
    assert push(opened, "gitlab", PUSH, {"X-Gitlab-Token": ""}) == 401


def test_an_unknown_provider_is_not_found(site: Open) -> None:
    code, found = answer(site([application()], webhook_secret=SECRET), "unknown", PUSH, signed("github"))
    assert code == 404
    assert "github, gitea, forgejo, gogs, bitbucket, gitlab, azure-devops, codecommit" in found["error"]


def test_the_answer_counts_the_applications_that_matched(site: Open) -> None:
    opened = site([application("shop"), application("shop-2")], webhook_secret=SECRET)
    assert answer(opened, "github", PUSH, signed("github")) == (202, {"accepted": True, "matched": 2})
    assert answer(opened, "github", OTHER, signed("github", OTHER)) == (202, {"accepted": True, "matched": 0})


def test_sets_that_read_the_repository_are_polled(site: Open) -> None:
    opened = site([application()], webhook_secret=SECRET)
    opened.engine.sets.known = [{"spec": {"generators": [{"git": {"repoURL": "https://git.example.com/shop.git"}}]}}]
    assert answer(opened, "github", PUSH, signed("github")) == (202, {"accepted": True, "matched": 2})
    assert opened.engine.sets.polled == ["https://git.example.com/shop.git"]


@pytest.mark.parametrize(
    ("provider", "header", "event", "body"),
    [
        ("github", "X-GitHub-Event", "ping", b'{"zen": "Keep it logically awesome.", "hook_id": 1}'),
        ("github", "X-GitHub-Event", "ping", PUSH),
        ("gitea", "X-Gitea-Event", "ping", b"{}"),
        ("forgejo", "X-Forgejo-Event", "ping", b"{}"),
        ("bitbucket", "X-Event-Key", "diagnostics:ping", b'{"test": true}'),
        ("gitlab", "X-Gitlab-Event", "System Hook", b'{"event_name": "user_create"}'),
    ],
)
def test_a_ping_is_answered_and_polls_nothing(site: Open, provider: str, header: str, event: str, body: bytes) -> None:
    opened = site([application()], webhook_secret=SECRET)
    assert push(opened, provider, body, {**signed(provider, body), header: event}) == 200
    assert push(opened, provider, body, {**signed(provider, body, "another"), header: event}) == 401
    assert opened.engine.requests.done == []


def test_the_form_encoding_of_github_is_read(site: Open) -> None:
    opened = site([application()], webhook_secret=SECRET)
    body = urlencode({"payload": PUSH.decode()}).encode()
    headers = {**signed("github", body), "Content-Type": "application/x-www-form-urlencoded"}
    assert answer(opened, "github", body, headers) == (202, {"accepted": True, "matched": 1})
    for wrong in (b"", b"payload=", b"payload=%7B", b"other=1", b"%ff"):
        assert push(opened, "github", wrong, {**headers, **signed("github", wrong)}) == 400


def test_bitbucket_cloud_names_the_page_of_a_repository(site: Open) -> None:
    spec = {"source": {"repoURL": "git@bitbucket.org:team/shop.git"}}
    opened = site([application(spec=spec)], webhook_secret=SECRET)
    repository = {
        "type": "repository",
        "full_name": "team/shop",
        "links": {
            "self": {"href": "https://api.bitbucket.org/2.0/repositories/team/shop"},
            "html": {"href": "https://bitbucket.org/team/shop"},
        },
    }
    body = orjson.dumps({"push": {"changes": []}, "repository": repository})
    headers = {**signed("bitbucket", body), "X-Event-Key": "repo:push"}
    assert answer(opened, "bitbucket", body, headers) == (202, {"accepted": True, "matched": 1})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff",
        b'{"repository": null}',
        b'{"repository": []}',
        b'{"repository": {"clone_url": 5}}',
        b'{"repository": {"links": {"clone": [5, {"href": null}]}}}',
        b'{"repository": {"clone_url": "--upload-pack=touch x"}}',
        b"[" * 100_000,
    ],
)
def test_a_malformed_payload_is_told_so(site: Open, body: bytes) -> None:
    opened = site([application()], webhook_secret=SECRET)
    assert push(opened, "github", body, signed("github", body)) == 400
    assert opened.engine.requests.done == []


def test_a_payload_of_25_mib_is_accepted(site: Open) -> None:
    opened = site([application()], webhook_secret=SECRET)
    body = PUSH + b" " * ((25 << 20) - len(PUSH))
    assert push(opened, "github", body, signed("github", body)) == 202


def test_a_larger_body_is_refused_before_it_is_read(site: Open) -> None:
    body = b" " * ((25 << 20) + 1)
    opened = site([application()], webhook_secret=SECRET)
    assert push(opened, "github", body, signed("github", body)) == 413


def test_a_replayed_delivery_looks_once(site: Open) -> None:
    # each replica has limits and a memory of its own
    opened = site([application()], webhook_secret=SECRET, are_two=False)
    headers = {**signed("github"), "X-GitHub-Delivery": "one"}
    assert [push(opened, "github", PUSH, headers) for _ in range(3)] == [202, 202, 202]
    assert len(opened.engine.requests.done) == 1
    assert push(opened, "github", PUSH, {**headers, "X-GitHub-Delivery": "two"}) == 202
    assert len(opened.engine.requests.done) == 2


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.com/team/shop",
        "https://git.example.com/team/shop.git",
        "https://user@git.example.com/team/shop.git",
        "ssh://git@git.example.com:2222/team/shop.git",
        "git@git.example.com:team/shop.git",
        "HTTPS://Git.Example.com/team/shop/",
    ],
)
def test_a_repository_is_known_by_any_spelling(url: str) -> None:
    assert normal(url) == "git.example.com/team/shop"


AZURE = {
    "eventType": "git.push",
    "resource": {
        "refUpdates": [{"name": "refs/heads/main"}],
        "repository": {
            "name": "shop",
            "url": "https://dev.azure.com/acme/_apis/git/repositories/278d5cd2",
            "remoteUrl": "https://acme@dev.azure.com/acme/My%20Project/_git/shop",
            "project": {"name": "My Project"},
        },
    },
}
CODECOMMIT = {
    "source": "aws.codecommit",
    "region": "eu-central-1",
    "detail": {"event": "referenceUpdated", "repositoryName": "shop", "referenceType": "branch"},
}
GOGS = {"ref": "refs/heads/main", "repository": {"clone_url": "http://gogs.example.com:3000/acme/shop.git"}}


def bitbucket(**links: Any) -> dict[str, Any]:
    return {"repository": {"slug": "shop", "links": links}}


@pytest.mark.parametrize(
    ("payload", "url"),
    [
        pytest.param(AZURE, "https://dev.azure.com/acme/My%20Project/_git/shop", id="Azure DevOps"),
        pytest.param(AZURE, "git@ssh.dev.azure.com:v3/acme/My%20Project/shop", id="Azure DevOps by SSH"),
        pytest.param(
            AZURE, "https://acme.visualstudio.com/DefaultCollection/My%20Project/_git/shop", id="its old host"
        ),
        pytest.param(AZURE, "acme@vs-ssh.visualstudio.com:v3/acme/My%20Project/shop", id="its old host by SSH"),
        pytest.param(CODECOMMIT, "https://git-codecommit.eu-central-1.amazonaws.com/v1/repos/shop", id="CodeCommit"),
        pytest.param(
            {"Type": "Notification", "Message": orjson.dumps(CODECOMMIT).decode()},
            "ssh://APKAEIBAERJR@git-codecommit.eu-central-1.amazonaws.com/v1/repos/shop",
            id="CodeCommit through SNS, by SSH",
        ),
        pytest.param(
            CODECOMMIT | {"region": "cn-north-1"},
            "https://git-codecommit.cn-north-1.amazonaws.com.cn/v1/repos/shop",
            id="CodeCommit in China",
        ),
        pytest.param(GOGS, "http://gogs.example.com:3000/acme/shop", id="Gogs"),
        pytest.param(
            bitbucket(self=[{"href": "https://git.example.com/projects/TEAM/repos/shop/browse"}]),
            "https://git.example.com/scm/team/shop.git",
            id="Bitbucket Data Center, its page only",
        ),
        pytest.param(
            bitbucket(self=[{"href": "https://git.example.com/bitbucket/users/ada/repos/shop/browse"}]),
            "https://git.example.com/bitbucket/scm/~ada/shop.git",
            id="Bitbucket Data Center, a user's, below a path",
        ),
        pytest.param(
            bitbucket(self=[{"href": "https://git.example.com/projects/TEAM/repos/shop/browse"}]),
            "ssh://git@git.example.com:7999/team/shop.git",
            id="Bitbucket Data Center by SSH",
        ),
        pytest.param(
            bitbucket(self={"href": "https://api.bitbucket.org/2.0/repositories/team/shop"}),
            "git@bitbucket.org:team/shop.git",
            id="Bitbucket Cloud, its API only",
        ),
    ],
)
def test_a_payload_names_its_repository(payload: Any, url: str) -> None:
    assert normal(url) in repository_urls(payload)


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("ssh://git@ssh.github.com:443/acme/shop.git", "https://github.com/acme/shop"),
        ("ssh://git@altssh.gitlab.com:443/acme/shop.git", "https://gitlab.com/acme/shop"),
        ("ssh://git@altssh.bitbucket.org:443/acme/shop.git", "git@bitbucket.org:acme/shop.git"),
        ("https://dev.azure.com/acme/_git/shop", "https://dev.azure.com/acme/shop/_git/shop"),
        ("https://dev.azure.com/acme/My%20Project/_git/shop", "https://dev.azure.com/acme/my project/_git/shop"),
    ],
)
def test_spellings_of_one_repository_are_equal(url: str, other: str) -> None:
    assert normal(url) == normal(other)


@pytest.mark.parametrize(
    "payload",
    [
        AZURE | {"resource": {"repository": {"id": "1"}}},
        {"resource": {"repository": "shop"}},
        {"source": "aws.codecommit"},
        CODECOMMIT | {"region": "eu central\n1"},
        {"Message": "[]"},
        {"Message": "{"},
        {"Message": "null"},
        bitbucket(self=[{"href": "https://git.example.com/other"}]),
        bitbucket(self="https://git.example.com/projects/A/repos/b/browse"),
        bitbucket(self=[{"href": 5}, None]),
    ],
)
def test_a_payload_without_a_repository_is_an_error(payload: Any) -> None:
    with pytest.raises(ValueError, match=r".*"):
        repository_urls(payload)


AUDIT_TOKEN = {"Authorization": "Bearer sink"}
WEB = ObjectRef("apps", "Deployment", "shop", "web")
POD = ObjectRef("", "Pod", "shop", "web-1")


def audited(**members: Any) -> dict[str, Any]:
    """Return an event of an API server's audit webhook: an edit of the Deployment ``web``, but for some members."""
    return {
        "stage": "ResponseComplete",
        "requestURI": "/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=kubectl-edit",
        "verb": "patch",
        "user": {"username": "ada"},
        "userAgent": "kubectl/v1.36.2",
        "objectRef": {"resource": "deployments", "namespace": "shop", "name": "web", "apiGroup": "apps"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-03-01T11:00:00.5Z",
        **members,
    }


def executed() -> dict[str, Any]:
    target = {"resource": "pods", "namespace": "shop", "name": "web-1", "subresource": "exec"}
    return audited(verb="get", objectRef=target, responseStatus={"code": 101}, stage="ResponseStarted")


def send(opened: Site, *events: dict[str, Any], headers: dict[str, str] = AUDIT_TOKEN) -> tuple[int, dict[str, Any]]:
    body = orjson.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": list(events)})
    return answer(opened, "audit", body, headers)


def with_drift(site: Open) -> Site:
    web = edited(resource("web", "Deployment", sync="OutOfSync", differences=(changed(),)))
    return site([application(resources=[web])], audit_secret="sink", token="people sign in, the API server does not")


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer other"}, basic(":sink")])
def test_audit_events_need_the_token(site: Open, headers: dict[str, str]) -> None:
    assert send(with_drift(site), audited(), headers=headers)[0] == 401
    assert send(site([application()]), audited())[0] == 401, "without a secret every request is refused"


def test_the_person_of_an_edit_is_shown_beside_the_drift(site: Open) -> None:
    opened = with_drift(site)
    assert send(opened, audited()) == (200, {"accepted": True, "recorded": 1})
    user = {"Authorization": "Bearer people sign in, the API server does not"}
    (row,) = orjson.loads(opened.get("/api/v1/drift", **user).text)["items"]
    assert (row["persons"], row["managers"]) == (["ada"], ["kubectl-edit"])
    assert "by ada, kubectl-edit" in opened.get("/drift", **user).text
    (link,) = opened.engine.records.audit_records(action=EDIT_ACTION)
    assert (link.application, link.resource, link.details["person"]) == ("gitsync/shop", WEB.path, "ada")


@pytest.mark.parametrize(
    "members",
    [
        {"user": {"username": "system:serviceaccount:kube-system:hpa"}, "requestURI": "/x?fieldManager=hpa"},
        {"requestURI": "/x?fieldManager=gitsync"},
        {"objectRef": {"resource": "deployments", "namespace": "shop", "name": "other", "apiGroup": "apps"}},
    ],
    ids=["a controller", "gitsync itself", "an object of no Application"],
)
def test_writes_of_no_person_are_not_recorded(site: Open, members: dict[str, Any]) -> None:
    assert send(with_drift(site), audited(**members)) == (200, {"accepted": True, "recorded": 0})


def test_what_was_run_in_a_pod_is_passed_on_and_recorded(site: Open) -> None:
    opened = with_drift(site)
    opened.engine.requests.parts[POD] = (("gitsync/shop", WEB),)
    assert send(opened, executed())[1]["recorded"] == 1
    assert opened.engine.requests.done == [("exec", "web-1", "ada")]
    (link,) = opened.engine.records.audit_records(action=EDIT_ACTION)
    assert (link.details["pod"], link.details["verb"]) == ("web-1", "exec")


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"items": 1}'])
def test_a_body_that_is_no_list_of_events_is_refused(site: Open, body: bytes) -> None:
    assert answer(with_drift(site), "audit", body, AUDIT_TOKEN)[0] == 400


DISTRIBUTION = {
    "events": [
        {
            "action": "push",
            "target": {"repository": "team/web", "tag": "2"},
            "request": {"host": "reg.example.com:5000"},
        },
        {"action": "pull", "target": {"repository": "team/api"}, "request": {"host": "reg.example.com:5000"}},
    ]
}
HARBOR = {
    "type": "PUSH_ARTIFACT",
    "event_data": {"resources": [{"tag": "2", "resource_url": "harbor.example.com/team/web:2"}]},
}
QUAY = {"repository": "team/web", "docker_url": "quay.io/team/web", "updated_tags": ["2"]}
DOCKER_HUB = {"push_data": {"tag": "2"}, "repository": {"repo_name": "team/web", "namespace": "team"}}
GITHUB = {
    "action": "published",
    "package": {"name": "web", "namespace": "Team", "package_type": "CONTAINER"},
    "repository": {"clone_url": "https://github.com/Team/web.git"},
}


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        pytest.param(DISTRIBUTION, "reg.example.com:5000/team/web", id="distribution"),
        pytest.param(HARBOR, "harbor.example.com/team/web", id="Harbor"),
        pytest.param(QUAY, "quay.io/team/web", id="Quay"),
        pytest.param(DOCKER_HUB, "docker.io/team/web", id="Docker Hub"),
        pytest.param(GITHUB, "ghcr.io/team/web", id="GitHub"),
        pytest.param({"registry_package": GITHUB["package"]}, "ghcr.io/team/web", id="GitHub, the older event"),
    ],
)
def test_an_event_of_a_registry_names_its_image(payload: Any, name: str) -> None:
    assert image_names(payload) == {name}


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param([], id="a list"),
        pytest.param({"events": "push"}, id="a text"),
        pytest.param({"events": [7, {"action": "push"}, {"action": "push", "request": {"host": "h"}}]}, id="no names"),
        pytest.param({"type": "DELETE_ARTIFACT", "event_data": HARBOR["event_data"]}, id="a deletion"),
        pytest.param({"docker_url": "quay.io/a b; rm -rf /"}, id="a shell"),
        pytest.param({"docker_url": 5}, id="a number"),
        pytest.param({"push_data": {}, "repository": "team/web"}, id="another form"),
        pytest.param({"package": {"name": "web", "package_type": "npm"}}, id="a package of another kind"),
    ],
)
def test_another_payload_names_no_image(payload: Any) -> None:
    assert image_names(payload) == frozenset()


@pytest.mark.parametrize("text", [f"Bearer {SECRET}", SECRET, basic(f"harbor:{SECRET}")["Authorization"]])
def test_a_push_to_a_registry_checks_the_images(site: Open, text: str) -> None:
    opened = site([application()], webhook_secret=SECRET)
    found = answer(opened, "registry", orjson.dumps(HARBOR), {"Authorization": text})
    assert found == (202, {"accepted": True, "matched": 1})
    assert opened.engine.updates.changed == [{"harbor.example.com/team/web"}]
    assert opened.engine.requests.done == []


def test_a_package_of_github_checks_the_images_and_not_git(site: Open) -> None:
    opened = site([application()], webhook_secret=SECRET)
    body = orjson.dumps(GITHUB)
    assert push(opened, "github", body, {**signed("github", body), "X-GitHub-Event": "package"}) == 202
    assert opened.engine.updates.changed == [{"ghcr.io/team/web"}]
    assert opened.engine.requests.done == []


@pytest.mark.parametrize("text", ["", "Bearer another", "another", "Bearer", basic("harbor:another")["Authorization"]])
def test_a_registry_without_the_secret_is_refused(site: Open, text: str) -> None:
    opened = site([application()], webhook_secret=SECRET)
    assert push(opened, "registry", orjson.dumps(HARBOR), {"Authorization": text}) == 401
    assert opened.engine.updates.changed == []


def test_other_events_of_a_registry_are_no_errors(site: Open) -> None:
    opened = site([application()], webhook_secret=SECRET)
    body = orjson.dumps({"events": [{"action": "pull"}]})
    assert push(opened, "registry", body, {"Authorization": SECRET}) == 200


BEFORE, AFTER = "b" * 40, "a" * 40


def listed(*files: str, **more: Any) -> dict[str, Any]:
    """Return a commit of a push event."""
    return {"id": AFTER, "added": [], "removed": [], "modified": list(files), **more}


def event(*commits: Any, **more: Any) -> dict[str, Any]:
    """Return a push event as GitHub, Gitea and Forgejo send it."""
    return {"ref": "refs/heads/main", "before": BEFORE, "after": AFTER, "commits": list(commits), **more}


@pytest.mark.parametrize(
    ("payload", "paths"),
    [
        (event(listed("README.md")), {"README.md"}),
        (event(listed("a", added=["b"], removed=["c"]), listed("d")), {"a", "b", "c", "d"}),
        (event(listed("a"), total_commits_count=1), {"a"}),  # GitLab
        (event(listed("a"), total_commits=1), {"a"}),  # Gitea
        (event(listed("ä/ü")), {"ä/ü"}),
    ],
)
def test_a_push_whose_files_are_listed_is_used(payload: dict[str, Any], paths: set[str]) -> None:
    assert listed_push(payload) == Push("main", BEFORE, AFTER, frozenset(paths))


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        event(),
        event(listed("a"), forced=True),
        event(listed("a"), ref="refs/tags/v1"),
        event(listed("a"), ref=None),
        event(listed("a"), before=None),
        event(listed("a"), after="main"),
        event(listed("a"), total_commits_count=21),
        event(listed("a"), total_commits=6),
        event(listed("a"), total_commits="1"),
        event(listed("a"), listed()),  # a merge
        event(listed("a"), {"id": AFTER}),  # Bitbucket lists no files
        event({"id": AFTER, "modified": ["a"], "added": []}),
        event("a"),
        event(*[listed("a")] * 21),
        event(listed(*map(str, range(301)))),
        event(commits=None),
        event(commits="a"),
    ],
)
def test_a_push_whose_files_may_be_incomplete_is_not_used(payload: Any) -> None:
    assert listed_push(payload) is None


def test_a_push_event_is_passed_on_with_its_files(site: Open) -> None:
    opened = site([application()], webhook_secret=SECRET)
    body = orjson.dumps({**orjson.loads(PUSH), **event(listed("README.md"))})
    assert push(opened, "github", body, signed("github", body)) == 202
    assert push(opened, "github", PUSH, signed("github")) == 202
    assert opened.engine.requests.pushes == [Push("main", BEFORE, AFTER, frozenset({"README.md"})), None]
