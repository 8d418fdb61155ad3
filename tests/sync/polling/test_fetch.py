"""
What a Git server is asked, and with which credentials, over real HTTP and with real Secrets of a cluster.

Then Applications follow names of a repository while names appear, move and vanish, and specs change at any time. A
model knows which commit each name has. Whatever happened, two intervals after the last change each Application is at
the commit of its name, and no name that exists is reported as missing. Time is simulated; git and the mirror are real.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from gitsync.cluster.cache import InformerCache
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import InvalidInput, MissingRevision, Refused, SourceUnavailable, UnexpectedError
from gitsync.objects.application import parse_application
from gitsync.objects.keys import GIT_URLS, REQUESTED_SYNC
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, joined_commits
from gitsync.objects.signers import Signer, Trust
from gitsync.ports import SourceRevision
from gitsync.runtime.workqueue import WorkQueue
from gitsync.sandbox.server import Sandbox
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.state.declarations import Declarations
from gitsync.sync.cache import GitAnswer, GitCache
from gitsync.sync.credentials import ApplicationSecrets
from gitsync.sync.input import ReconcileInput
from gitsync.sync.polling.fetch import Fetcher, QueryDue, RevisionFollower, SignatureCheck
from gitsync.sync.polling.git_watcher import GitWatcher
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

    def fetch_several(self, fetcher: Fetcher, *sources: Manifest, status: Manifest | None = None) -> Commit:
        manifest = {"status": {"revision": status or {}}, "metadata": META, "spec": {"sources": list(sources)}}
        given = ReconcileInput.parse(manifest, self.clock.now())
        fetcher.poll(given, self.cache)
        return fetcher.checkout(given, self.cache)

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
        source = Repositories(tmp_path / "mirrors", Transport(("http",)), clock=clock.monotonic)
        yield Site(
            git,
            GitRepo(tmp_path / "git"),
            cluster,
            live,
            GitCache(),
            verified,
            applied,
            lambda **policies: Fetcher(
                source,
                ApplicationSecrets(cluster, live),
                SignatureCheck(verify, **policies),
                clock,
                random=lambda: 0.0,
            ),
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


def test_each_of_several_sources_is_verified_by_its_own_keys(site: Site) -> None:
    site.repo.commit({"x/a.yaml": "a: 1"})
    site.secret("keys", a="good")
    site.secret("others", a="bad")
    url = site.git.url("origin.git")
    signed = {"name": "signed", "repoURL": url, "path": "x", **VERIFY}
    fetcher = site.make()
    first = site.fetch_several(fetcher, signed, {"name": "open", "repoURL": url})
    assert [[signer.keys for signers in trust for signer in signers] for trust in site.verified] == [[("good",)]]

    site.repo.commit({"x/a.yaml": "a: 2"})
    site.cache = GitCache()
    verify = {"mode": "SignedCommits", "secretRef": {"name": "others"}}
    with pytest.raises(Refused, match="not signed"):
        site.fetch_several(
            fetcher, signed, {"name": "open", "repoURL": url, "verify": verify}, status={"applied": first.id}
        )
    assert site.since[1:] == [joined_commits(first)["signed"], joined_commits(first)["open"]]


def test_signers_of_a_policy_have_to_sign_besides_those_of_the_application(site: Site) -> None:
    commit = site.repo.commit({"x/a.yaml": "a: 1"})
    site.secret("keys", a="good")
    required: list[Trust] = [((Signer(keys=("good",)),), (Signer(keys=("bad",)),))]
    fetcher = site.make(signers_of=lambda app: required[-1])
    for verification in (VERIFY, {}):
        with pytest.raises(Refused, match="not signed"):
            site.fetch(fetcher, **verification)
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


def test_no_request_is_sent_before_the_delay_that_a_server_asks_for(site: Site) -> None:
    commit = site.repo.commit({"x/a.yaml": "a: 1"})
    fetcher = site.make()
    site.git.failures[""] = 429
    site.git.retry_after = "900"
    with pytest.raises(SourceUnavailable, match="the next attempt follows in 900 s") as caught:
        site.fetch(fetcher)
    assert caught.value.retry_after == 900
    requests = site.git.requests
    site.git.failures.clear()
    for seconds in (400, 890):  # longer than the interval
        site.clock.time = seconds
        site.cache.notified_at = seconds  # a push
        with pytest.raises(SourceUnavailable):
            site.fetch(fetcher)
    assert site.git.requests == requests
    site.clock.time = 901
    assert site.fetch(fetcher).id == commit


def test_only_a_query_that_nobody_waits_for_names_the_reported_commit(site: Site) -> None:
    commit = site.repo.commit({"x/a.yaml": "a: 1"})
    source = {"repoURL": site.git.url("origin.git"), "path": "x"}
    manifest = {"status": {"revision": {"fetched": commit}}, "metadata": META, "spec": {"source": source}}
    request = {**META, "annotations": {REQUESTED_SYNC: "now"}}
    inputs = {
        "restarted": ReconcileInput.parse(manifest, site.clock.now()),
        "new": ReconcileInput.parse({**manifest, "status": {}}, site.clock.now()),
        "requested": ReconcileInput.parse({**manifest, "metadata": request}, site.clock.now()),
    }
    fetcher = site.make()

    def reported(name: str, cache: GitCache) -> str:
        return fetcher.poll(inputs[name], cache, waits=False).query.reported

    assert {name: reported(name, GitCache()) for name in inputs} == {"restarted": commit, "new": "", "requested": ""}
    assert reported("restarted", GitCache(notified_at=0.0)) == "", "of a push"
    fetcher.poll(inputs["restarted"], site.cache)
    assert reported("restarted", site.cache) == "", "of a poll"


def test_a_server_cannot_stop_the_polls_for_a_day(site: Site) -> None:
    site.repo.commit({"x/a.yaml": "a: 1"})
    site.git.failures[""] = 503
    site.git.retry_after = "86400"
    with pytest.raises(SourceUnavailable) as caught:
        site.fetch(site.make())
    assert caught.value.retry_after == 3600


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
        ApplicationSecrets(site.cluster, site.live).credentials(app)


ENGINE = json.dumps(
    {
        "auths": {
            "ghcr.io": {"auth": base64.b64encode(b"ann:secret").decode()},
            "registry.lan:5000": {"username": "bob", "password": "other"},
            "git.example.test": {"username": "bob", "password": "other"},
        }
    }
)


@pytest.mark.parametrize(
    ("url", "members", "user", "password"),
    [
        ("oci://ghcr.io/web", {"username": "ada", "password": "right"}, "ada", "right"),
        ("oci://ghcr.io/web", {".dockerconfigjson": ENGINE}, "ann", "secret"),
        ("oci://registry.lan:5000/web", {".dockerconfigjson": ENGINE}, "bob", "other"),
        ("oci://ghcr.io/web", {"ca.crt": "PEM"}, "", ""),
    ],
)
def test_a_secret_of_a_registry_is_read(
    site: Site, url: str, members: dict[str, str], user: str, password: str
) -> None:
    site.secret("login", **members)
    app = parse_application({"metadata": META, "spec": {"source": {"repoURL": url, **CREDENTIALS}}})
    credentials = ApplicationSecrets(site.cluster, site.live).credentials(app)
    assert (credentials.username, credentials.password) == (user, password)


@pytest.mark.parametrize(
    ("url", "config", "says"),
    [
        ("oci://quay.io/web", ENGINE, "Secret default/login has no password; oci URLs need it"),
        ("oci://ghcr.io/web", "[]", "the member .dockerconfigjson is not the config of a container engine"),
        ("oci://ghcr.io/web", "{", "the member .dockerconfigjson is not the config of a container engine"),
        ("oci://ghcr.io/web", '{"auths": {"ghcr.io": {"auth": "%"}}}', "is not the config of a container engine"),
        # a password of a registry is for no Git server
        (URLS["https"], ENGINE, "Secret default/login has no password; https URLs need it"),
    ],
)
def test_a_secret_without_a_password_for_the_registry_is_named(site: Site, url: str, config: str, says: str) -> None:
    site.secret("login", **{".dockerconfigjson": config})
    app = parse_application({"metadata": META, "spec": {"source": {"repoURL": url, **CREDENTIALS}}})
    with pytest.raises(InvalidInput) as caught:
        ApplicationSecrets(site.cluster, site.live).credentials(app)
    assert says in str(caught.value)


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
        assert ApplicationSecrets(site.cluster, site.live).credentials(app).app_key == "key"
    else:
        with pytest.raises(Refused, match=r"is for https://github\.com/\*, not for .*gitsync\.dev/git-urls"):
            ApplicationSecrets(site.cluster, site.live).credentials(app)


def test_line_ends_around_the_members_of_a_secret_do_not_count(site: Site) -> None:
    site.repo.commit({"x/a.yaml": "a: 1"})
    site.secret("login", username="ada\n", password="right\r\n")
    site.git.accepted = {"ada:right"}
    assert site.fetch(site.make(), **CREDENTIALS).id == site.cache.commit
    site.secret("key", **{"ssh-privatekey": "a\r\nb\r\n", "known_hosts": "host\r\n"})
    source = {"repoURL": URLS["ssh"], "path": "x", "credentials": {"secretRef": {"name": "key"}}}
    found = ApplicationSecrets(site.cluster, site.live).credentials(
        parse_application({"metadata": META, "spec": {"source": source}})
    )
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


INTERVAL = 20
COMMITS = 8
NAMES = {
    "main": ("refs/heads/main",),
    "feature": ("refs/heads/feature",),
    "1.x": ("refs/heads/1.x", "refs/tags/v1.0.0"),
    "v1.0.0": ("refs/tags/v1.0.0",),
}
"""Revisions, and the refs that they name; the first one that exists counts: a branch, then the range of versions."""
REFS = sorted({ref for refs in NAMES.values() for ref in refs})


@dataclass
class SimulatedClock:
    """A clock that only the test moves."""

    time: float = 10_000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time)

    def monotonic(self) -> float:
        return self.time


class SteppedWatcher(GitWatcher):
    """A watcher without threads: it queries what is due when a test says so."""

    def report_to(self, enqueue: Callable[[str], None]) -> None:
        """Enqueue Applications with this, without starting threads."""
        self._enqueue_application = lambda key, is_urgent: enqueue(key)

    def step(self) -> None:
        """Answer all queries that are due."""
        while (url := self._queue.get(timeout=0)) is not None:
            self._controller._once(url)
            self._queue.done(url)


@dataclass
class Follower:
    """One Application: the revision in its spec, what it is at, and how its last reconcile failed."""

    revision: str
    cache: GitCache = field(default_factory=GitCache)
    commit: str = ""
    failure: Exception | None = None


class Replica:
    """A controller that reconciles Applications as the pipeline does, up to the commit that they follow."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.clock = SimulatedClock()
        self.apps: dict[str, Follower] = {}
        self.source = Repositories(folder, Transport(("file", "http")), clock=self.clock.monotonic)
        self.watcher = SteppedWatcher(self.source, Declarations(), self.clock, random=lambda: 0.5)
        nothing: Any = None
        fetcher = Fetcher(self.source, ApplicationSecrets(nothing, nothing), SignatureCheck(nothing), self.clock)
        self.revision = RevisionFollower(fetcher, self.watcher)
        self.queue: WorkQueue[str] = WorkQueue(monotonic=self.clock.monotonic)
        self.watcher.report_to(self.queue.add)

    def set_revision(self, name: str, revision: str) -> None:
        """Create an Application, or edit its spec."""
        self.apps.setdefault(f"gitsync/{name}", Follower(revision)).revision = revision
        self.queue.add(f"gitsync/{name}")

    def push_event(self) -> None:
        """Take a push event of the repository."""
        for key in self.watcher.poll_now(list(self.apps)):
            self.apps[key].cache.notified_at = self.clock.time
            self.queue.add(key)

    def run(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.clock.time += 1
            self.watcher.step()
            self.reconcile_all()
            self.watcher.step()
            self.reconcile_all()

    def reconcile_all(self) -> None:
        """Reconcile the Applications that are due."""
        while (key := self.queue.get(timeout=0)) is not None:
            self._reconcile(key)
            self.queue.done(key)

    def _reconcile(self, key: str) -> None:
        app = self.apps[key]
        try:
            self._follow(key, app)
        except QueryDue:
            pass
        except SourceUnavailable as error:
            app.failure = error
            self.queue.add_after(key, error.retry_after or 1.0)

    def _follow(self, key: str, app: Follower) -> None:
        namespace, _, name = key.partition("/")
        source = {"repoURL": self.url, "revision": app.revision, "path": "x"}
        manifest = {
            "metadata": {"name": name, "namespace": namespace, "uid": name, "generation": 1},
            "spec": {"source": source, "sync": {"interval": f"{INTERVAL}s"}},
            "status": {},
        }
        given = ReconcileInput.parse(manifest, self.clock.now())
        polled = self.revision.poll(given, app.cache)
        if not polled.is_due:
            self.queue.add_after(key, polled.requeue_after)
        try:
            app.commit = self.revision.checkout(given, app.cache).id
            app.failure = polled.error
        except InvalidInput as error:
            app.failure = error
            return
        self.revision.watch(app.cache, polled, app.commit, frozenset({"x/"}))


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> GitRepo:
    """A repository with a line of commits that no ref but ``main`` has."""
    made = GitRepo(tmp_path_factory.mktemp("git"))
    for number in range(COMMITS):
        made.commit({"x/a.yaml": f"a: {number}", "other.yaml": str(number // 2)})
    git(made.origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    return made


def commits_of(repo: GitRepo) -> list[str]:
    return git(repo.origin, "rev-list", "--reverse", "main").split()


def set_ref(origin: Path, ref: str, commit: str) -> None:
    """Point a ref to a commit, or delete it."""
    git(origin, "update-ref", *(("-d", ref) if not commit else (ref, commit)))


class FollowedNames(RuleBasedStateMachine):
    """Names and specs change; see the module for what has to hold."""

    repo: GitRepo

    @initialize()
    def start(self) -> None:
        self.folder = TemporaryDirectory(prefix="gitsync-model-")
        self.origin = Path(self.folder.name) / "origin.git"
        shutil.copytree(self.repo.origin, self.origin)
        self.commits = commits_of(self.repo)
        self.refs: dict[str, str] = {}
        self._move("refs/heads/main", 0)
        self.replica = Replica(Path(self.folder.name) / "mirrors", f"file://{self.origin}")
        self.replica.set_revision("a", "main")
        self.replica.run(1)

    @rule(ref=st.sampled_from(REFS), number=st.integers(0, COMMITS - 1))
    def push(self, ref: str, number: int) -> None:
        self._move(ref, number)

    @rule(ref=st.sampled_from([ref for ref in REFS if ref != "refs/heads/main"]))
    def delete(self, ref: str) -> None:
        if self.refs.pop(ref, None):
            set_ref(self.origin, ref, "")

    @rule(name=st.sampled_from("ab"), revision=st.sampled_from(sorted(NAMES)))
    def edit(self, name: str, revision: str) -> None:
        self.replica.set_revision(name, revision)

    @rule()
    def push_event(self) -> None:
        self.replica.push_event()

    @rule(seconds=st.sampled_from((1, 3, 8, 15, 21, 45)))
    def wait(self, seconds: int) -> None:
        self.replica.run(seconds)

    @rule()
    def settle(self) -> None:
        self.replica.run(2 * INTERVAL)
        for key, app in self.replica.apps.items():
            commit = next((self.refs[ref] for ref in NAMES[app.revision] if ref in self.refs), "")
            if commit:
                assert app.failure is None, (key, app.revision)
                assert app.commit == commit, (key, app.revision)
            else:
                assert isinstance(app.failure, MissingRevision), (key, app.revision)

    def teardown(self) -> None:
        if not hasattr(self, "replica"):
            return
        try:
            self.settle()
        finally:
            self.replica.source.close()
            self.folder.cleanup()

    def _move(self, ref: str, number: int) -> None:
        self.refs[ref] = self.commits[number]
        set_ref(self.origin, ref, self.commits[number])


def test_each_application_reaches_the_commit_of_its_name(repo: GitRepo) -> None:
    FollowedNames.repo = repo
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        FollowedNames,
        settings=settings(
            max_examples=20, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_name_that_is_pushed_after_the_spec_names_it_is_found(tmp_path: Path, repo: GitRepo) -> None:
    """While an Application waits for a name, polls of the branch that it followed before are none of its own."""
    shutil.copytree(repo.origin, tmp_path / "origin.git")
    replica = Replica(tmp_path / "mirrors", f"file://{tmp_path / 'origin.git'}")
    replica.set_revision("a", "main")
    replica.run(INTERVAL)
    replica.set_revision("a", "v1.0.0")
    replica.run(INTERVAL)
    assert isinstance(replica.apps["gitsync/a"].failure, MissingRevision)
    commit = commits_of(repo)[2]
    set_ref(tmp_path / "origin.git", "refs/tags/v1.0.0", commit)
    replica.run(2 * INTERVAL)
    assert replica.apps["gitsync/a"].failure is None
    assert replica.apps["gitsync/a"].commit == commit
    replica.source.close()


def test_an_answer_for_the_former_revision_is_not_taken(tmp_path: Path, repo: GitRepo) -> None:
    """A spec may be edited while the query of the former revision is under way."""
    origin = tmp_path / "origin.git"
    shutil.copytree(repo.origin, origin)
    commits = commits_of(repo)
    set_ref(origin, "refs/heads/feature", commits[1])
    replica = Replica(tmp_path / "mirrors", f"file://{origin}")
    replica.set_revision("a", "main")
    replica.reconcile_all()  # asks for main
    replica.watcher.step()
    replica.set_revision("a", "feature")
    replica.run(1)
    assert replica.apps["gitsync/a"].commit == commits[1]
    replica.source.close()


def filtering(server: GitServer, origin: Path) -> None:
    git(origin, "config", "uploadpack.allowFilter", "true")


def first_version(server: GitServer, origin: Path) -> None:
    server.is_old = True


def redirecting(server: GitServer, origin: Path) -> None:
    server.redirects["/moved.git"] = "/origin.git"


def slow(server: GitServer, origin: Path) -> None:
    server.trickle = 0.0002


KINDS = {"filters": filtering, "version 0": first_version, "redirects": redirecting, "slow": slow}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_followed_at_each_kind_of_server(tmp_path: Path, repo: GitRepo, server: GitServer, kind: str) -> None:
    origin = tmp_path / "origin.git"
    shutil.copytree(repo.origin, origin)
    KINDS[kind](server, origin)
    commits = commits_of(repo)
    replica = Replica(tmp_path / "mirrors", server.url("moved.git" if kind == "redirects" else "origin.git"))

    def at(name: str) -> str:
        app = replica.apps[f"gitsync/{name}"]
        return str(app.failure) if app.failure else app.commit

    set_ref(origin, "refs/heads/main", commits[0])
    replica.set_revision("a", "main")
    replica.run(INTERVAL)
    assert at("a") == commits[0]
    set_ref(origin, "refs/heads/feature", commits[1])
    replica.run(2)
    replica.set_revision("b", "feature")  # the last list of refs is older than the branch
    replica.run(2)
    assert at("b") == commits[1]
    set_ref(origin, "refs/tags/v1.0.0", commits[2])
    replica.set_revision("a", "v1.0.0")
    replica.run(2)
    assert at("a") == commits[2]
    set_ref(origin, "refs/heads/feature", "")
    replica.run(2 * INTERVAL)
    assert "the revision 'feature' does not exist" in at("b")
    set_ref(origin, "refs/heads/feature", commits[3])
    replica.run(2 * INTERVAL)
    assert at("b") == commits[3]
    replica.source.close()
