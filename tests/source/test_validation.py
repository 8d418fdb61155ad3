from __future__ import annotations

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.application import GitSource
from gitsync.source.validation import (
    PlainHosts,
    artifact_host,
    check_revision,
    check_source,
    check_url,
    clean_path,
    shown_url,
)


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.test/team/agents.git",
        "https://git.example.test:8443/team/agents",
        "https://someone@git.example.test/agents.git",
        "ssh://git@git.example.test:2222/agents.git",
        "git@git.example.test:team/agents.git",
        "https://[2001:db8::1]/agents.git",
        "https://dev.azure.com/acme/My%20Project/_git/agents",
        "git@ssh.dev.azure.com:v3/acme/My%20Project/agents",
        "https://git_server.lan/agents.git",
        "git@git_server:team/agents.git",
    ],
)
def test_accepts_https_and_ssh(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "empty"),
        ('ext::sh -c "touch x"', "scheme 'ext'"),
        ("ext::sh", "scheme 'ext'"),
        ("fd::17", "scheme 'fd'"),
        ("--upload-pack=x", "scheme"),
        ("ssh://-oProxyCommand=x/repo.git", "host"),
        ("ssh://git@-oProxyCommand=x/repo.git", "host"),
        ("-oProxyCommand@host:path", "scheme"),
        ("http://git.example.test/x.git", "scheme 'http'"),
        ("git://git.example.test/x.git", "scheme 'git'"),
        ("file:///srv/x.git", "file"),
        ("FILE:///srv/x.git", "file"),
        ("/srv/x.git", "local path"),
        ("../x.git", "local path"),
        ("https://git.example.test/%0ahost=evil.test/x.git", "control character"),
        ("https://git.example.test/x\ny", "control character"),
        ("https://git.example.test/x y", "control character.*write a space in the path as %20"),
        ("https://git.example%20.test/x", "control character"),
        ("https://git.example.test/x%20%0ay", "control character"),
        ("git@git.example.test:x%00y", "control character"),
        ("https://git.example.test:port/x", "invalid URL"),
        ("https://git.example.test/team-a/../team-b", "dot segments"),
        ("https://git.example.test/team-a/%2e%2e/team-b", "dot segments"),
        ("https://git.example.test/a%2fb", "percent-encoded"),
        ("https://git.example.test/a?b", "query"),
        ("git@git.example.test:a/../b", "dot segments"),
    ],
)
def test_refuses_what_git_could_misread(url: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        check_url(url)
    assert "spec.source.repoURL" in str(caught.value)


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInput, match="credentials") as caught:
        check_url("https://me:hunter2@git.example.test/x.git")
    assert "hunter2" not in str(caught.value)
    assert shown_url("https://me:hunter2@git.example.test/x.git") == "https://git.example.test/x.git"


def test_local_repositories_only_where_the_operator_allows_them() -> None:
    check_url("file:///srv/x.git", {"file"})
    with pytest.raises(InvalidInput, match="allowed schemes: file"):
        check_url("https://git.example.test/x.git", {"file"})


@pytest.mark.parametrize("revision", ["main", "release/1.2", "v1.0.0", "a" * 40, "feature_x", "HEAD"])
def test_accepts_names_and_commits(revision: str) -> None:
    check_revision(revision)


REFUSED = (
    "", "-u", "--output=x", "main --force", "refs/heads/../x", "a..b", "a\nb", "@{-1}", "@", "HEAD~3", "a^", "a:b",
    "x.lock", "x/", "/x", "x//y", ".x", "x/.y", "x.", "a?b", "a*b", "a[b", "a\\b", "a" * 256, "a\x7fb", "x.lock/y",
)  # fmt: skip


@pytest.mark.parametrize(
    "revision",
    REFUSED,
)
def test_refuses_what_is_no_ref_name(revision: str) -> None:
    with pytest.raises(InvalidInput, match="not a valid"):
        check_revision(revision)


@pytest.mark.parametrize(
    ("path", "clean"), [("", ""), (".", ""), ("./a/b/", "a/b"), ("a//b", "a/b"), ("a.b/c", "a.b/c")]
)
def test_cleans_paths(path: str, clean: str) -> None:
    assert clean_path(path) == clean


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../../b", "a/%2e%2e/x", "..\\x", "a\0b", "a\nb"])
def test_refuses_paths_that_could_leave_the_repository(path: str) -> None:
    with pytest.raises(InvalidInput, match="relative path inside"):
        clean_path(path)


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("http://gitea.git.svc:3000/team/shop.git", True),
        ("HTTP://Gitea.git.svc:3000/team/shop.git", True),
        ("http://git.test/shop.git", True),
        ("http://git.test:80/shop.git", True),
        ("http://signed.test/shop.git", True),
        ("http://git.test:8080/shop.git", False),
        ("http://gitea.git.svc/shop.git", False),
        ("http://other.test/shop.git", False),
        ("http://git.test@other.test/shop.git", False),
        ("git://git.test/shop.git", False),
        ("http://git.test:port/shop.git", False),
    ],
)
def test_plain_http_is_allowed_for_named_hosts_alone(url: str, is_allowed: bool) -> None:
    plain = PlainHosts.parse("gitea.git.svc:3000, git.test,", "signed.test")
    if is_allowed:
        check_url(url, plain=plain)
    else:
        with pytest.raises(InvalidInput):
            check_url(url, plain=plain)
    with pytest.raises(InvalidInput):
        check_url(url)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://git.test/shop.git", "git.test"),
        ("http://127.0.0.1:8099/shop.git", "127.0.0.1:8099"),
        ("HTTP://ada:secret@Git.test:3000/shop.git", "git.test:3000"),
    ],
)
def test_the_value_of_the_setting_for_plain_http_is_named(url: str, host: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_url(url)
    # the name without its port, which the setting compares, is refused again
    assert f"; {host} in GITSYNC_GIT_HTTP_HOSTS" in caught.value.hint
    assert PlainHosts.parse(host, "").allow(url)
    assert "secret" not in caught.value.hint


def test_credentials_go_only_to_the_hosts_named_for_them() -> None:
    plain = PlainHosts.parse("git.test", "signed.test:8080")
    urls = ("http://git.test/x", "http://signed.test:8080/x", "http://signed.test/x", "https://signed.test:8080/x")
    assert [plain.allow_credentials(url) for url in urls] == [False, True, False, False]


@pytest.mark.parametrize(
    ("url", "revision", "host"),
    [
        ("oci://ghcr.io/stefanprodan/manifests/podinfo", "6.5.0", "ghcr.io"),
        ("oci://registry.lan:5000/web", "latest", "registry.lan:5000"),
        ("oci://localhost/web", "sha256:" + "a" * 64, "localhost"),
        ("oci://[::1]:5000/web", ">=1 <2", "[::1]:5000"),
        ("helm+https://charts.example.com/stable/web", "1.2.3+build.4", "charts.example.com"),
        ("helm+https://charts/web", "~1.4", "charts"),
        ("oci://ghcr.io/web", "a" * 40, "ghcr.io"),
    ],
)
def test_accepts_charts_and_artifacts(url: str, revision: str, host: str) -> None:
    check_source(GitSource(repo_url=url, revision=revision))
    assert artifact_host(url) == host


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("oci://", "is not one of a Helm repository or an OCI registry"),
        ("oci://ghcr.io", "is not one of a Helm repository or an OCI registry"),
        ("oci:///web", "is not one of a Helm repository or an OCI registry"),
        ("oci://ann:secret@ghcr.io/web", "no user, no password"),
        ("oci://-x.example/web", "is not one of a Helm repository"),
        ("oci://ghcr.io/w\neb", "is not one of a Helm repository"),
        ("oci://ghcr.io/%0aweb", "is not one of a Helm repository"),
        ("oci://registry/web", "has neither a dot nor a port; write it with its port: oci://registry:443/web"),
        ("oci://ghcr.io/Web", "is not a repository of a registry"),
        ("oci://ghcr.io/web:1.0", "the tag or digest is spec.source.revision"),
        ("oci://ghcr.io/web@sha256:" + "a" * 64, "the tag or digest is spec.source.revision"),
        ("oci://ghcr.io/../web", "is not a repository of a registry"),
        ("oci://ghcr.io/web?x", "is not a repository of a registry"),
        ("helm+http://charts.example.com/web", "is without TLS; use https"),
        ("helm+https://charts.example.com/a/../web", "dot segments"),
        ("helm+https://charts.example.com/web?x", "a query or fragment"),
        ("helm+https://charts.example.com/a%2fb/web", "percent-encoded"),
    ],
)
def test_refuses_urls_of_no_artifact(url: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_source(GitSource(repo_url=url, revision="1.0.0"))
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("revision", ["", "sha256:abc", "sha512:" + "a" * 64, "a b", "-x", "refs/tags/1", "a/b", "1@2"])
def test_refuses_revisions_of_no_artifact(revision: str) -> None:
    with pytest.raises(InvalidInput, match="is not a tag, a version, a range or a digest"):
        check_source(GitSource(repo_url="oci://ghcr.io/web", revision=revision))


def test_a_helm_repository_without_tls_is_one_of_the_operator() -> None:
    plain = PlainHosts.parse("charts.lan", "")
    check_source(GitSource(repo_url="helm+http://charts.lan/web", revision="1"), plain=plain)
