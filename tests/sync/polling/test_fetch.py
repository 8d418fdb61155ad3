"""What a Git server is asked, and with which credentials, over real HTTP and with real Secrets of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitsync.cluster.cache import InformerCache
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import InvalidInput, Refused, SourceUnavailable, UnexpectedError
from gitsync.objects.application import parse_application
from gitsync.objects.keys import GIT_URLS
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.objects.signers import Signer, Trust
from gitsync.ports import SourceRevision
from gitsync.sandbox.server import Sandbox
from gitsync.source.repositories import Repositories
from gitsync.sync.cache import GitAnswer, GitCache
from gitsync.sync.credentials import credentials_of
from gitsync.sync.input import ReconcileInput
from gitsync.sync.polling.fetch import Fetcher
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git
from tests.waiting import until

META = {"name": "a", "namespace": "default", "uid": "u", "generation": 1}


@dataclass
class TestClock:
    """A clock that a test sets: no poll becomes due by itself."""

    __test__ = False
    time: float = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.time


@dataclass
class Site:
    """A Git server, a cluster with Secrets, and a fetcher between them."""

    git: GitServer
    repo: GitRepo
    cluster: KubernetesCluster
    live: InformerCache
    cache: GitCache
    verified: list[Trust]
    since: list[str]
    make: Callable[..., Fetcher]
    clock: TestClock
    interval: str = "3m"
    wait: float = 0.0

    def secret(self, name: str, annotations: dict[str, str] | None = None, **data: str) -> None:
        resource = self.cluster.resource("", "v1", "Secret")
        assert resource is not None
        written = self.cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
                "stringData": data,
            },
            manager="ada",
        )
        version = written["metadata"]["resourceVersion"]
        self.live.follow([(resource, "")], 5)
        seen = lambda: self.live.get(resource, "default", name) or {"metadata": {}}  # noqa: E731
        until(lambda: seen()["metadata"].get("resourceVersion") == version)

    def requests_in(self, seconds: float, applications: int, after: float = 0.0) -> int:
        """Return the requests to the Git server while Applications of one repository are reconciled when due."""
        start, began, fetcher = self.clock.time, self.git.requests, self.make()
        caches = [GitCache() for _ in range(applications)]
        due = [start + number for number in range(applications)]
        while (now := min(due)) < start + after + seconds:
            if now < start + after:
                began = self.git.requests
            self.clock.time, number = now, due.index(now)
            self.cache = caches[number]
            with suppress(SourceUnavailable):
                self.fetch(fetcher)
            due[number] = self.cache.next_poll
        return self.git.requests - began

    def fetch(self, fetcher: Fetcher, status: Manifest | None = None, **source: object) -> Commit:
        manifest: Manifest = {
            "status": status or {},
            "metadata": META,
            "spec": {
                "source": {"repoURL": self.git.url("origin.git"), "path": "x", **source},
                "sync": {"interval": self.interval},
            },
        }
        given = ReconcileInput.parse(manifest, self.clock.now())
        self.wait = fetcher.poll(given, self.cache).requeue_after
        return fetcher.checkout(given, self.cache)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Sandbox(workloads=False) as sandbox, GitServer(tmp_path / "git") as git:
        client = Client(Connection(str(sandbox.kubeconfig(tmp_path / "kubeconfig"))))
        cluster, live = KubernetesCluster(client), InformerCache(client)
        verified: list[Trust] = []
        applied: list[str] = []

        def verify(revision: SourceRevision, trust: Trust) -> None:
            verified.append(trust)
            applied.append(revision.since)
            if any("good" not in signer.keys for signers in trust for signer in signers):
                raise Refused("not signed by a trusted key")

        clock = TestClock()
        source = Repositories(tmp_path / "mirrors", schemes=("http",), clock=clock.monotonic)
        yield Site(
            git,
            GitRepo(tmp_path / "git"),
            cluster,
            live,
            GitCache(),
            verified,
            applied,
            lambda **given: Fetcher(source, verify, cluster, live, clock, random=lambda: 0.0, **given),
            clock,
        )
        live.stop()
        client.close()


CREDENTIALS = {"credentials": {"secretRef": {"name": "login"}}}
VERIFY = {"verify": {"mode": "SignedCommits", "secretRef": {"name": "keys"}}}


def test_rotated_credentials_are_used_at_the_next_look_and_not_only_when_a_poll_is_due(site: Site) -> None:
    commit = site.repo.commit({"x/a.yaml": "a: 1"})
    site.git.accepted = {"ada:right"}
    site.secret("login", username="ada", password="wrong")
    fetcher = site.make()
    with pytest.raises(SourceUnavailable, match="rejected the credentials"):
        site.fetch(fetcher, **CREDENTIALS)
    site.secret("login", username="ada", password="right")
    assert site.fetch(fetcher, **CREDENTIALS).id == commit
    assert site.cache.poll_error is None


def test_unchanged_credentials_ask_nothing_before_a_poll_is_due(site: Site) -> None:
    site.repo.commit({"x/a.yaml": "a: 1"})
    site.git.accepted = {"ada:right"}
    site.secret("login", username="ada", password="right")
    fetcher = site.make()
    site.fetch(fetcher, **CREDENTIALS)
    asked = site.git.listings
    for _ in range(5):
        site.fetch(fetcher, **CREDENTIALS)
    assert site.git.listings == asked


def test_other_trusted_keys_are_applied_to_a_commit_that_is_known_already(site: Site) -> None:
    commit = site.repo.commit({"x/a.yaml": "a: 1"})
    fetcher = site.make()
    site.secret("keys", a="bad")
    with pytest.raises(Refused, match="not signed"):
        site.fetch(fetcher, **VERIFY)
    site.secret("keys", a="good")
    assert site.fetch(fetcher, **VERIFY).id == commit
    assert site.fetch(fetcher, **VERIFY).id == commit
    assert len(site.verified) == 2  # the same keys are not asked about twice


def test_the_commits_since_the_applied_one_are_verified(site: Site) -> None:
    applied = site.repo.commit({"x/a.yaml": "a: 1"})
    site.repo.commit({"x/a.yaml": "a: 2"})
    site.secret("keys", a="good")
    site.fetch(site.make(), status={"revision": {"applied": applied}}, **VERIFY)
    assert site.since == [applied]


def test_signers_of_a_policy_have_to_sign_besides_those_of_the_application(site: Site) -> None:
    commit = site.repo.commit({"x/a.yaml": "a: 1"})
    site.secret("keys", a="good")
    required: list[Trust] = [((Signer(keys=("good",)),), (Signer(keys=("bad",)),))]
    fetcher = site.make(signers_of=lambda app: required[-1])
    for settings in (VERIFY, {}):
        with pytest.raises(Refused, match="not signed"):
            site.fetch(fetcher, **settings)
    assert [len(trust) for trust in site.verified] == [3, 2]
    required.append(((Signer(keys=("good",)),),))  # the operator changes the policy
    assert site.fetch(fetcher).id == commit


def test_failed_polls_are_retried_with_growing_delays_up_to_the_interval(site: Site) -> None:
    commit = site.repo.commit({"x/a.yaml": "a: 1"})
    fetcher = site.make()
    site.interval = "3m"
    site.fetch(fetcher)
    site.git.accepted = set()
    for delay in (30, 60, 120, 180, 180):
        site.cache.next_poll, site.cache.notified_at = float("-inf"), 0.0  # no earlier answer is recent enough
        assert site.fetch(fetcher).id == commit
        assert site.wait == delay


def test_a_shorter_interval_takes_effect_at_once(site: Site) -> None:
    site.repo.commit({"x/a.yaml": "a: 1"})
    fetcher = site.make()
    site.interval = "1h"
    site.fetch(fetcher)
    assert site.wait > 3000
    site.interval = "1m"
    site.fetch(fetcher)
    assert site.wait <= 60


@pytest.mark.parametrize(
    ("failing", "code"), [("", 401), ("", 429), ("/info/refs", 503), ("/git-upload-pack", 429), (" fetch", 503)]
)
def test_forty_failing_applications_make_no_more_requests_than_healthy_ones(
    site: Site, failing: str, code: int
) -> None:
    site.repo.commit({"x/a.yaml": "a: 1"})
    healthy = site.requests_in(900, 40)
    site.clock.time += 600
    site.repo.commit({"x/a.yaml": "a: 2"})
    site.git.failures[failing] = code
    assert 0 < site.requests_in(900, 40, after=600) <= healthy


def test_a_fetch_that_fails_is_retried_with_the_next_poll(site: Site) -> None:
    commit = site.repo.commit({"x/a.yaml": "a: 1"})
    fetcher = site.make()
    site.git.failures[" fetch"] = 503
    for delay in (30, 60, 120, 180, 180):
        for _ in range(3):
            with pytest.raises(SourceUnavailable) as caught:
                site.fetch(fetcher)
        assert caught.value.retry_after == delay
        site.clock.time += delay
    site.git.failures.clear()
    site.clock.time += 180
    assert site.fetch(fetcher).id == commit
    assert site.cache.retry_delay == 0


def test_after_a_defect_the_next_reconcile_polls_again(site: Site) -> None:
    commit = site.repo.commit({"x/a.yaml": "a: 1"})
    fetcher = site.make()
    site.interval = "1h"
    for _ in range(3):
        site.cache.answer = GitAnswer(site.git.url("origin.git"), "main", UnexpectedError("ZeroDivisionError", "1f0e"))
        with pytest.raises(UnexpectedError):
            site.fetch(fetcher)
    assert site.fetch(fetcher).id == commit


def test_a_revision_that_does_not_exist_is_looked_up_again_at_the_next_poll(site: Site) -> None:
    site.repo.commit({"x/a.yaml": "a: 1"})
    fetcher = site.make()
    for _ in range(2):
        with pytest.raises(InvalidInput, match="does not exist"):
            site.fetch(fetcher, revision="later")
        assert 0 < site.wait <= 180
    commit = site.repo.commit({"x/a.yaml": "a: 2"})
    git(site.repo.work, "push", "-q", "origin", "HEAD:refs/heads/later")
    site.clock.time += 180
    assert site.fetch(fetcher, revision="later").id == commit
    git(site.repo.work, "push", "-q", "origin", ":refs/heads/later")
    site.clock.time += 180
    for _ in range(2):
        with pytest.raises(InvalidInput, match="does not exist"):
            site.fetch(fetcher, revision="later")


def test_a_commit_of_another_repository_is_not_the_last_known_one(site: Site) -> None:
    site.repo.commit({"x/a.yaml": "a: 1"})
    fetcher = site.make()
    site.fetch(fetcher)
    site.git.accepted = set()
    site.clock.time += 600
    with pytest.raises(SourceUnavailable):
        site.fetch(fetcher, revision="another")
    assert not site.cache.commit


URLS = {"https": "https://git.example.test/shop.git", "ssh": "git@git.example.test:shop.git"}


@pytest.mark.parametrize(
    ("url", "members", "missing"),
    [
        ("https", {"username": "ada"}, "has no password"),
        ("https", {"ssh-privatekey": "key", "known_hosts": "host"}, "has no password"),
        ("ssh", {"username": "ada", "password": "right"}, "has no ssh-privatekey and no known_hosts"),
        ("ssh", {"ssh-privatekey": "key"}, "has no known_hosts"),
        ("ssh", {"identity": "key", "known_hosts": "\n"}, "has no known_hosts"),
    ],
)
def test_the_missing_member_of_a_secret_is_named(site: Site, url: str, members: dict[str, str], missing: str) -> None:
    site.secret("login", **members)
    app = parse_application({"metadata": META, "spec": {"source": {"repoURL": URLS[url], "path": "x", **CREDENTIALS}}})
    with pytest.raises(InvalidInput, match=f"Secret default/login {missing}"):
        credentials_of(app, site.cluster, site.live)


@pytest.mark.parametrize(
    ("urls", "is_allowed"),
    [
        ("", True),
        ("https://other.example/*", False),
        ("https://other.example/* http://127.0.0.1:*/origin", True),
        ("http://127.0.0.1:*/team-*/*", False),
    ],
)
def test_a_secret_is_used_for_the_urls_that_it_names(site: Site, urls: str, is_allowed: bool) -> None:
    commit = site.repo.commit({"x/a.yaml": "a: 1"})
    site.git.accepted = {"ada:right"}
    site.secret("login", annotations={GIT_URLS: urls}, username="ada", password="right")
    if is_allowed:
        assert site.fetch(site.make(), **CREDENTIALS).id == commit
    else:
        with pytest.raises(Refused, match=r"Secret default/login is for .*, not for http://127\.0\.0\.1.*origin\.git"):
            site.fetch(site.make(), **CREDENTIALS)
        assert site.git.requests == 0


@pytest.mark.parametrize(
    ("url", "urls", "is_allowed"),
    [
        ("https://github.com/acme/shop.git", "", True),
        ("https://git.attacker.example/acme/shop.git", "", False),
        ("https://github.com.attacker.example/acme/shop.git", "", False),
        ("https://github.acme.example/acme/shop.git", "https://github.acme.example/acme/*", True),
    ],
)
def test_the_key_of_a_github_app_is_for_github_unless_it_names_others(
    site: Site, url: str, urls: str, is_allowed: bool
) -> None:
    members = {"githubAppID": "7", "githubAppInstallationID": "42", "githubAppPrivateKey": "key"}
    site.secret("login", annotations={GIT_URLS: urls}, **members)
    spec = {"source": {"repoURL": url, **CREDENTIALS}, "destination": {}}
    app = parse_application({"metadata": META, "spec": spec})
    if is_allowed:
        assert credentials_of(app, site.cluster, site.live).app_key == "key"
    else:
        with pytest.raises(Refused, match=r"is for https://github\.com/\*, not for .*gitsync\.dev/git-urls"):
            credentials_of(app, site.cluster, site.live)


def test_line_ends_around_the_members_of_a_secret_do_not_count(site: Site) -> None:
    site.repo.commit({"x/a.yaml": "a: 1"})
    site.secret("login", username="ada\n", password="right\r\n")
    site.git.accepted = {"ada:right"}
    assert site.fetch(site.make(), **CREDENTIALS).id == site.cache.commit
    site.secret("key", **{"ssh-privatekey": "a\r\nb\r\n", "known_hosts": "host\r\n"})
    source = {"repoURL": URLS["ssh"], "path": "x", "credentials": {"secretRef": {"name": "key"}}}
    found = credentials_of(parse_application({"metadata": META, "spec": {"source": source}}), site.cluster, site.live)
    assert (found.ssh_key, found.known_hosts) == ("a\nb\n", "host\n")


def test_errors_name_the_secret_and_the_next_attempt(site: Site) -> None:
    site.repo.commit({"x/a.yaml": "a: 1"})
    site.git.accepted = set()
    site.secret("login", username="ada", password="wrong")
    with pytest.raises(SourceUnavailable, match="in Secret default/login"):
        site.fetch(site.make(), **CREDENTIALS)
    site.git.accepted = None
    site.git.failures[""] = 429
    site.clock.time += 600
    with pytest.raises(SourceUnavailable, match=r"\(429\); .*the next attempt follows in 60 s"):
        site.fetch(site.make(), **CREDENTIALS)
