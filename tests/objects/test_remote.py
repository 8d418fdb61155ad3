"""
References to other repositories, by the rules that Kustomize documents for remote targets.

Each was compared with the arguments that Kustomize 5.8.1 gives to git.
"""

from __future__ import annotations

import pytest

from gitsync.objects.remote import parse_remote, parse_remote_file

REFERENCES = {
    "https://github.com/org/repo//path/to?ref=v1": ("https://github.com/org/repo", "v1", "path/to"),
    "https://github.com/org/repo/path/to/?ref=v1": ("https://github.com/org/repo", "v1", "path/to"),
    "github.com/org/repo/path?ref=v1": ("https://github.com/org/repo", "v1", "path"),
    "git@github.com:org/repo//path?ref=v1": ("git@github.com:org/repo", "v1", "path"),
    "ssh://git@github.com/org/repo//path?ref=v1": ("git@github.com:org/repo", "v1", "path"),
    "git::https://git.example/org/repo.git/path?ref=v1": ("https://git.example/org/repo.git", "v1", "path"),
    "https://git.example/group/sub/repo.git//path?ref=v1": ("https://git.example/group/sub/repo.git", "v1", "path"),
    "HTTPS://git.example:8443/org/repo/path?version=v2": ("https://git.example:8443/org/repo", "v2", "path"),
    "https://git.example/org/repo?ref=v1&version=v2": ("https://git.example/org/repo", "v1", ""),
    "https://git.example/org/repo?timeout=90s&submodules=false&ref=v1": ("https://git.example/org/repo", "v1", ""),
    "ssh://git@git.example:2222/org/repo//path?ref=v1": ("ssh://git@git.example:2222/org/repo", "v1", "path"),
    "git@git.example:org/repo.git//path?ref=v1": ("git@git.example:org/repo.git", "v1", "path"),
    "https://me@dev.azure.com/org/it/_git/repo/path?ref=v1": (
        "https://me@dev.azure.com/org/it/_git/repo",
        "v1",
        "path",
    ),
    "file:///srv/repo.git//path?ref=v1": ("file:///srv/repo.git", "v1", "path"),
    "https://git.example/org/repo": ("https://git.example/org/repo", "", ""),
    "github.com/org/repo?ref=a%2Fb": ("https://github.com/org/repo", "a/b", ""),
    "http://github.com/org/repo?ref=v1": ("https://github.com/org/repo", "v1", ""),
    "github.com:org/repo/path?ref=v1": ("https://github.com/org/repo", "v1", "path"),
    "git@github.com/org/repo?ref=v1": ("git@github.com:org/repo", "v1", ""),
    "org-1234@github.com:org/repo?ref=v1": ("org-1234@github.com:org/repo", "v1", ""),
    "git::git@git.example:org/repo?ref=v1": ("git@git.example:org/repo", "v1", ""),
    "git@git.example:7999/org/repo//path?ref=v1": ("git@git.example:7999/org/repo", "v1", "path"),
    "https://git.example/group/sub/repo//path?ref=v1": ("https://git.example/group/sub/repo", "v1", "path"),
    "https://github.com/org/my.github.io/path?ref=v1": ("https://github.com/org/my.git", "v1", "hub.io/path"),
    "https://github.com.evil.example/org/repo?ref=v1": ("https://github.com.evil.example/org/repo", "v1", ""),
}


FILES = {
    "https://raw.githubusercontent.com/org/repo/v1/a/b.yaml": ("https://github.com/org/repo", "v1", "a/b.yaml"),
    "https://raw.githubusercontent.com/org/repo/refs/tags/v1/b.yml": (
        "https://github.com/org/repo",
        "refs/tags/v1",
        "b.yml",
    ),
    "https://github.com/org/repo/raw/v1/a/b.yaml": ("https://github.com/org/repo", "v1", "a/b.yaml"),
    "https://gitlab.example/group/sub/repo/-/raw/v1/a/b.json": (
        "https://gitlab.example/group/sub/repo",
        "v1",
        "a/b.json",
    ),
    "https://git.example/org/repo/raw/tag/v1/b.yaml": ("https://git.example/org/repo", "v1", "b.yaml"),
    "http://git.example:3000/org/repo/raw/commit/3f2a/b.yaml": ("http://git.example:3000/org/repo", "3f2a", "b.yaml"),
}


@pytest.mark.parametrize("reference", FILES)
def test_a_raw_url_names_a_file_in_a_repository(reference: str) -> None:
    assert parse_remote(reference) == (*FILES[reference], True)


@pytest.mark.parametrize(
    "reference",
    [
        "https://raw.githubusercontent.com/org/repo/v1/../../../other/b.yaml",
        "https://github.com/org/repo/releases/download/v1/b.yaml",
        "https://github.com/org/repo/blob/v1/b.yaml",
        "https://git.example/org/repo/raw/branch/main/b.yaml",
        "https://raw.githubusercontent.com.evil.example/org/repo/v1/b.yaml",
        "https://evil.example/https://raw.githubusercontent.com/org/repo/v1/b.yaml",
    ],
)
def test_other_urls_name_no_file_in_a_repository(reference: str) -> None:
    assert parse_remote_file(reference) is None


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_reference_names_a_repository_a_revision_and_a_folder(reference: str) -> None:
    assert parse_remote(reference) == (*REFERENCES[reference], False)


@pytest.mark.parametrize(
    "reference",
    [
        "../base",
        "org/repo?ref=v1",
        "https://git.example/repo?ref=v1",
        "https://git.example/org/repo//../x?ref=v1",
        "s3::x",
    ],
)
def test_what_names_no_folder_in_a_repository(reference: str) -> None:
    assert parse_remote(reference) is None
