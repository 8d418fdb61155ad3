"""The options that several commands share, and what follows from them."""

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

Name = Annotated[str, typer.Argument(metavar="NAME", help="The Application.")]
Output = Annotated[Format, typer.Option("--output", "-o", help="table, json or yaml.")]
Kubeconfig = Annotated[
    str, typer.Option(help="The kubeconfig file; by default KUBECONFIG, the demo's, then ~/.kube/config.")
]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="The namespace of the Application.")]
Data = Annotated[Path, typer.Option(envvar="GITSYNC_DATA", help="The folder of mirrors, history and sandbox state.")]
FileUrls = Annotated[
    bool, typer.Option(envvar="GITSYNC_ALLOW_FILE_URLS", help="Allow file:// repositories, as the demo's is.")
]
Policies = Annotated[
    Path | None,
    typer.Option(envvar="GITSYNC_POLICIES", help="The operator's folder of policies."),
]
AgeKey = Annotated[
    Path | None,
    typer.Option(
        envvar="SOPS_AGE_KEY_FILE", help="Open secrets with this file of age keys, not with the Application's Secret."
    ),
]
By = Annotated[str, typer.Option(help="Who says so; by default the name you are signed in with.")]


ServerUrl = Annotated[
    str,
    typer.Option(
        "--server", envvar="GITSYNC_SERVER", help="Ask this dashboard; by default the one that runs on the data folder."
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", envvar="GITSYNC_TOKEN_FILE", help="The file with your token for the dashboard."),
]
UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--users", envvar="GITSYNC_USERS", help="The file of the people who sign in with a token of their own."
    ),
]


class RendererName(StrEnum):
    """How a folder is read."""

    AUTO = "Auto"
    KUSTOMIZE = "Kustomize"
    PLAIN = "Plain"


Renderer = Annotated[
    RendererName,
    typer.Option(
        help="Auto: as Kustomize does where there is a kustomization file, else Plain: all files as they are."
    ),
]
LoadRestrictor = Annotated[bool, typer.Option(help="Refuse files out of the kustomization's folder.")]
Revision = Annotated[str, typer.Option("--rev", help="Read this Git revision instead of the files on disk.")]
Host = Annotated[str, typer.Option(help="The address of the dashboard.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port of the dashboard; 0 picks one.")]


class AuditFormat(StrEnum):
    """The forms of the audit."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    JSONL = "jsonl"


DATA = Path(".gitsync")
NAMESPACE = "gitsync"


@dataclass(frozen=True, slots=True)
class Target:
    """
    Where a command works: the cluster, the folder of data, and whether repositories may be folders.

    ``policies`` and ``age_key`` are what the controller has too: the operator's rules, and the keys of secrets in Git.
    """

    kubeconfig: str
    data: Path
    file_urls: bool = False
    policies: Path | None = None
    age_key: Path | None = None


def resolve_target(
    kubeconfig: str, data: Path, file_urls: bool = False, policies: Path | None = None, age_key: Path | None = None
) -> Target:
    """
    Return where to work: the kubeconfig given, else KUBECONFIG's, else the demo's where it runs.

    The repository of the demo is a folder on this machine, so with its kubeconfig such repositories are allowed.
    """
    demo = data / "kubeconfig"
    config = kubeconfig or ("" if os.environ.get("KUBECONFIG") or not demo.exists() else str(demo))
    is_demo = bool(config) and Path(config).resolve() == demo.resolve()
    return Target(config, data, file_urls or is_demo, policies, age_key)


def load_settings(**given: Any) -> Settings:
    """Return the settings of flags and environment; raise InvalidInput naming the variable that cannot be used."""
    from pydantic import ValidationError

    from gitsync.settings import Settings

    try:
        return Settings(**given)
    except ValidationError as error:
        wrong = error.errors()[0]
        name = "_".join(str(part) for part in wrong["loc"])
        where = f"--{name.replace('_', '-')}" if name in given else f"GITSYNC_{name.upper()}"
        raise InvalidInput(wrong["msg"], location=where) from error
