"""The options that several commands share, and the ``Target`` that they describe."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gitsync.cli.output import Format
from gitsync.errors import InvalidInput

if TYPE_CHECKING:
    from gitsync.settings import Settings

DATA = Path(".gitsync")
NAMESPACE = "gitsync"
DEFAULT_PORT = 8080

Name = Annotated[str, typer.Argument(metavar="NAME", help="The Application.")]
AnyName = Annotated[str, typer.Argument(metavar="NAME", help="The Application; without it, all Applications.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the Application.")]
AnyNamespace = Annotated[str, typer.Option("--namespace", "-n", help="Only this namespace.")]
Output = Annotated[Format, typer.Option("--output", "-o", help="table, wide, name, json or yaml.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Print new and changed rows until Ctrl-C.")]
FilterWords = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILTER", help="Members such as kind:Deployment, app:shop or by:kubectl, and words."),
]
ObjectArgument = Annotated[str, typer.Argument(metavar="OBJECT", help="The object, such as Deployment/web.")]
Kubeconfig = Annotated[
    str,
    typer.Option(
        envvar="GITSYNC_KUBECONFIG",
        help="The kubeconfig file; by default KUBECONFIG, the demo's, then ~/.kube/config.",
    ),
]
Data = Annotated[
    Path, typer.Option(envvar="GITSYNC_DATA", help="The folder for mirrors, history and the state of the sandbox.")
]
FileUrls = Annotated[
    bool, typer.Option(envvar="GITSYNC_ALLOW_FILE_URLS", help="Allow file:// repositories, such as the demo's.")
]
Policies = Annotated[
    Path | None, typer.Option(envvar="GITSYNC_POLICIES", help="The folder with the operator's Policy files.")
]
AgeKey = Annotated[
    Path | None,
    typer.Option(
        envvar="SOPS_AGE_KEY_FILE",
        help="Decrypt with the age keys in this file instead of those in the Application's Secret.",
    ),
]
Reason = Annotated[str, typer.Option(help="The reason, for the audit.")]
By = Annotated[str, typer.Option(help="The reviewer; by default the name of the operating system's user.")]
Requester = Annotated[
    str,
    typer.Option("--by", help="Who requests it, for the audit; by default the name of the operating system's user."),
]
ServerUrl = Annotated[
    str,
    typer.Option(
        "--server",
        envvar="GITSYNC_SERVER",
        help="The URL of the dashboard; by default the one that runs on the data folder.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", envvar="GITSYNC_TOKEN_FILE", help="The file with your token for the dashboard."),
]
UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--users", envvar="GITSYNC_USERS", help="The file of the users who sign in with a token of their own."
    ),
]
Host = Annotated[str, typer.Option(envvar="GITSYNC_WEB_HOST", help="The address that the dashboard listens on.")]
LoadRestrictor = Annotated[bool, typer.Option(help="Reject files outside the kustomization's folder.")]
Remotes = Annotated[
    list[str] | None,
    typer.Option(
        "--remote", metavar="URL", help="A repository, with *, whose folders a kustomization may name by URL."
    ),
]
Revision = Annotated[str, typer.Option("--rev", help="Read this Git revision instead of the files on disk.")]


class RendererName(StrEnum):
    """How a folder is rendered."""

    AUTO = "Auto"
    KUSTOMIZE = "Kustomize"
    PLAIN = "Plain"


Renderer = Annotated[
    RendererName,
    typer.Option(
        help="Kustomize, Plain (all manifests as they are), or Auto: Kustomize where there is a kustomization file."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """
    What a command acts on: an Application, its cluster, and the data folder.

    ``policies`` and ``age_key`` are what the controller has too: the operator's rules and the keys of secrets in Git.
    """

    name: str = ""
    namespace: str = NAMESPACE
    kubeconfig: str = ""
    data: Path = DATA
    file_urls: bool = False
    policies: Path | None = None
    age_key: Path | None = None

    @property
    def key(self) -> str:
        """The Application as ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def cluster(self) -> str:
        """The kubeconfig file: the given one, else KUBECONFIG's (empty), else the demo's where it runs."""
        if self.kubeconfig or os.environ.get("KUBECONFIG") or not self._demo.exists():
            return self.kubeconfig
        return str(self._demo)

    @property
    def allows_file_urls(self) -> bool:
        """Whether repositories may be folders: on request, and in the demo, whose repository is one."""
        return self.file_urls or (bool(self.cluster) and Path(self.cluster).resolve() == self._demo.resolve())

    @property
    def _demo(self) -> Path:
        return self.data / "kubeconfig"


def load_settings(**given: Any) -> Settings:
    """Return the settings of flags and environment; raise InvalidInput with the name of the invalid variable."""
    from pydantic import ValidationError  # most commands need no settings, and help must not wait for this import

    from gitsync.settings import Settings

    try:
        return Settings(**given)
    except ValidationError as error:
        wrong = error.errors()[0]
        name = "_".join(str(part) for part in wrong["loc"])
        where = f"--{name.replace('_', '-')}" if name in given else f"GITSYNC_{name.upper()}"
        raise InvalidInput(wrong["msg"], location=where) from error
