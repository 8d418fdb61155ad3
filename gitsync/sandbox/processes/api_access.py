"""How a container that runs as a process reaches the API server: the tokens of its volumes, and a kubeconfig."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gitsync.files import PRIVATE, write_file
from gitsync.objects.manifest import Manifest, at

_DEFAULT_LIFE = 3600
_REFRESHED_AT = 0.8
"""The share of a token's life after which the kubelet writes another one."""
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: pod
clusters: [{{name: sandbox, cluster: {{server: "{url}", certificate-authority: "{authority}"}}}}]
contexts: [{{name: pod, context: {{cluster: sandbox, user: pod, namespace: "{namespace}"}}}}]
users: [{{name: pod, user: {{tokenFile: "{token}"}}}}]
"""


class TokenAsked(NamedTuple):
    """A token that a volume asks for: the file that has it, its audience (empty: the API server) and its life."""

    path: str
    audience: str
    seconds: int


class ApiAccess(NamedTuple):
    """
    The API server: its URL with TLS, and how to get a token of a ServiceAccount (namespace, name, requested token).

    ``call_later`` runs an action after seconds of its clock, and returns what cancels it.
    """

    url: Callable[[], str]
    issue: Callable[[str, str, TokenAsked], str]
    call_later: Callable[[float, Callable[[], None]], Callable[[], None]]

    def token(self, pod: Manifest, asked: TokenAsked) -> str:
        """Return a token of the Pod's ServiceAccount, empty where that does not exist any more."""
        account = pod["spec"].get("serviceAccountName") or "default"
        return self.issue(pod["metadata"]["namespace"], account, asked)


def token_of(source: Manifest) -> TokenAsked | None:
    """Return the token that a source of a projected volume asks for."""
    projection = source.get("serviceAccountToken")
    if projection is None:
        return None
    return TokenAsked(
        projection["path"], projection.get("audience") or "", projection.get("expirationSeconds") or _DEFAULT_LIFE
    )


def refresh_after(pod: Manifest) -> float | None:
    """Return the seconds after which a token of the Pod has to be replaced, None where it has none."""
    lives = [asked.seconds for volume in pod["spec"].get("volumes") or () for asked in _tokens(volume)]
    return min(lives) * _REFRESHED_AT if lives else None


def write_kubeconfig(pod: Manifest, folder: Path, place: Callable[[Manifest], Path], url: str) -> Path | None:
    """
    Write a kubeconfig by which clients sign in as the Pod, and return its path; None where no volume has a token.

    Clients inside a cluster read files of fixed paths, which a process does not have.
    """
    for volume in pod["spec"].get("volumes") or ():
        asked = next((wanted for wanted in _tokens(volume) if not wanted.audience), None)
        if asked is None:
            continue
        files = place(volume)
        config = folder / "kubeconfig"
        text = _KUBECONFIG.format(
            url=url,
            authority=files / "ca.crt",
            namespace=pod["metadata"]["namespace"],
            token=files / asked.path,
        )
        write_file(config, text, PRIVATE)
        return config
    return None


def _tokens(volume: Manifest) -> list[TokenAsked]:
    tokens = (token_of(source) for source in at(volume, "projected", "sources") or ())
    return [asked for asked in tokens if asked is not None]
