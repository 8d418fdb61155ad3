"""
The options that several commands share, one by one and as groups, and the decorator of every command.

A group is a dataclass whose members are options. A command that has a parameter of its type has an option for each
member, and gets them as one value: ``def history(target: ApplicationTarget, output: Output = ...)``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from inspect import Parameter, Signature, get_annotations, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_type_hints

import typer

from gitsync.cli.errors import exit_on_error
from gitsync.cli.output import Exit, Format
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
    HELM = "Helm"
    PLAIN = "Plain"


Renderer = Annotated[
    RendererName,
    typer.Option(
        help="Kustomize, Helm, Plain (all manifests as they are), or Auto: Kustomize where there is a kustomization"
        " file, Helm where there is a Chart.yaml."
    ),
]
ValueFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--values",
        metavar="FILE",
        help="Values of a chart, as in spec.source.helm.valueFiles: relative to the chart, or to the root with a /."
        " Repeatable.",
    ),
]
ReleaseName = Annotated[str, typer.Option("--release-name", help="The release of a chart.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTarget:
    """The cluster of a command, and the data folder of its controller."""

    kubeconfig: Kubeconfig = ""
    data: Data = DATA

    @property
    def cluster(self) -> str:
        """The kubeconfig file: the given one, else KUBECONFIG's (empty), else the demo's where it runs."""
        if self.kubeconfig or os.environ.get("KUBECONFIG") or not self._demo.exists():
            return self.kubeconfig
        return str(self._demo)

    @property
    def is_demo(self) -> bool:
        """Whether the cluster is that of the demo, whose repository is a folder."""
        files = self.cluster or os.environ.get("KUBECONFIG", "")
        # the same file may be named by another path; of several the current context may be any
        return bool(files) and Path(files).resolve() == self._demo.resolve()

    @property
    def _demo(self) -> Path:
        return self.data / "kubeconfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationTarget(ClusterTarget):
    """An Application of a cluster."""

    name: Name
    namespace: Namespace = NAMESPACE

    @property
    def key(self) -> str:
        """The Application as ``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitTarget(ApplicationTarget):
    """An Application whose repository the command reads itself, by the rules that the controller has."""

    allow_file_urls: FileUrls = False
    policies: Policies = None

    @property
    def allows_file_urls(self) -> bool:
        """Whether repositories may be folders."""
        return self.allow_file_urls or self.is_demo


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOrigin:
    """Who requests something, and why, for the audit."""

    reason: Reason = ""
    by: Requester = ""


_OPENED: ContextVar[ExitStack | None] = ContextVar("opened", default=None)
"""What the running command has opened."""


def close_at_end(close: Callable[[], None]) -> None:
    """Call a function when the running command has ended, whatever its end is; ignored outside of one."""
    stack = _OPENED.get()
    if stack is not None:
        stack.callback(close)


def command(function: Callable[..., Exit]) -> Callable[..., NoReturn]:
    """
    Return a function as a command: with an option for each member of a group, and an exit code as its end.

    An option that two groups have is one option, whose value both get.
    """
    # annotations are text, by "from __future__ import annotations"
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type[Any]] = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)
    }
    parameters: dict[str, Parameter] = {}
    for parameter in signature(function).parameters.values():
        group = groups.get(parameter.name)
        # the first of two options of one name stays: help has it once
        for option in _members(group) if group else [parameter.replace(annotation=hints[parameter.name])]:
            parameters.setdefault(option.name, option)

    def run(**values: Any) -> Exit:
        # members of groups are not parameters of the function
        arguments = {name: value for name, value in values.items() if name in hints}
        for name, group in groups.items():
            arguments[name] = group(**{member.name: values[member.name] for member in fields(group)})
        with ExitStack() as stack:
            token = _OPENED.set(stack)
            try:
                return function(**arguments)
            finally:
                _OPENED.reset(token)

    wrapped = exit_on_error(functools.wraps(function)(run))  # Typer reads name and docstring of the function itself
    # what Typer reads: keyword-only, because a member without a default may follow one with a default
    ordered = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in parameters.values()]
    wrapped.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {option.name: option.annotation for option in ordered}
    return wrapped


def command_group(summary: str) -> typer.Typer:
    """Return a group of commands, such as ``gitsync agent``."""
    return typer.Typer(rich_markup_mode=None, no_args_is_help=True, add_completion=False, help=summary)


def _members(group: type) -> list[Parameter]:
    """Return the options of a group, those of a base class last: help starts with what is particular."""
    hints = get_type_hints(group, include_extras=True)
    names = [name for base in group.__mro__ for name in get_annotations(base)]
    defaults = {member.name: member.default for member in fields(group)}
    return [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if defaults[name] is MISSING else defaults[name],
            annotation=hints[name],
        )
        for name in dict.fromkeys(names)
    ]


def load_settings(**values: Any) -> Settings:
    """Return the settings of flags and environment; raise InvalidInput with the name of the invalid variable."""
    from pydantic import ValidationError  # most commands need no settings, and help must not wait for this import

    from gitsync.settings import Settings

    try:
        return Settings(**values)
    except ValidationError as error:
        wrong = error.errors()[0]
        name = "_".join(str(part) for part in wrong["loc"])
        where = f"--{name.replace('_', '-')}" if name in values else f"GITSYNC_{name.upper()}"
        raise InvalidInput(wrong["msg"], location=where) from error
