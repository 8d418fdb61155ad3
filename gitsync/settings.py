"""Settings: options and environment variables, read once into one frozen value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from gitsync.source.local import FILE_MIB, MAX_FILE_MIB

if TYPE_CHECKING:  # most commands read settings, and no repository
    from gitsync.integrations.key_services import KeyServices
    from gitsync.source.landlock import Confinement
    from gitsync.source.repositories import Repositories

AbsolutePath = Annotated[Path, AfterValidator(Path.absolute)]
"""A path that does not depend on the working directory: render processes run in ``/``."""


def _absolute(path: str) -> str:
    """Return an absolute path; an empty one stays empty."""
    return str(Path(path).absolute()) if path else ""


class Settings(BaseSettings):
    """
    All settings; each has an environment variable ``GITSYNC_`` plus its name.

    Options of the command line override the environment.
    """

    model_config = SettingsConfigDict(env_prefix="GITSYNC_", frozen=True, extra="ignore", validate_default=True)

    kubeconfig: Annotated[str, AfterValidator(_absolute)] = Field(
        "", description="kubeconfig file; empty: the usual places, then in-cluster"
    )
    context: str = Field("", description="context of the kubeconfig")
    cluster_seconds: float = Field(30.0, gt=0, description="time limit of one request to the API server in seconds")
    data: AbsolutePath = Field(Path(".gitsync"), description="folder for mirrors, history and the sandbox's state")
    database: str = Field("", description="history database URL; empty: SQLite in the data folder")
    audit_days: int = Field(0, ge=0, description="days after which audit records are dropped; 0: never")
    audit_records: int = Field(
        1_000_000, ge=0, description="newest audit records that are kept, older ones are dropped; 0: all"
    )
    audit_heads: AbsolutePath | None = Field(
        None, description="append-only file for the newest hash of the audit, on another disk than the database"
    )
    workers: int = Field(16, ge=1, le=64, description="Applications that are synced in parallel")
    processes: int = Field(1, ge=1, le=16, description="processes on this machine that share the Applications")
    writes: int = Field(16, ge=1, le=64, description="parallel writes to the cluster")
    render_workers: int = Field(2, ge=1, le=32, description="isolated render processes")
    render_seconds: float = Field(60.0, gt=0, description="time limit of one render in seconds")
    render_memory: int = Field(1024, ge=128, description="memory limit of a render process in MiB")
    git_seconds: float = Field(120.0, gt=0, description="time limit of one request to a Git server in seconds")
    git_pack: int = Field(2048, ge=1, description="size limit of one fetch in MiB")
    git_mirror: int = Field(3072, ge=1, description="size limit of the mirror of one repository in MiB")
    artifact_mib: int = Field(
        100, ge=1, le=1024, description="size limit of a chart or artifact, packed and unpacked, in MiB"
    )
    git_memory: int = Field(1024, ge=64, description="memory limit of a git process that reads from a server in MiB")
    git_ca: AbsolutePath | None = Field(
        None, description="file with certificates (PEM) of Git servers, trusted beside the system's"
    )
    git_http_hosts: str = Field(
        "", description="hosts (host:port), comma-separated, whose repositories may be read over HTTP, without TLS"
    )
    git_http_sign_in: str = Field(
        "", description="those hosts, comma-separated, that also get credentials over HTTP, which others may read"
    )
    file_mib: int = Field(FILE_MIB, ge=1, le=MAX_FILE_MIB, description="largest file of an Application in MiB")
    allow_file_urls: bool = Field(False, description="allow file:// repositories, as the demo needs")
    policies: AbsolutePath | None = Field(None, description="folder with the operator's Policy files")
    controller_rights: bool = Field(
        False, description="let Applications that name no ServiceAccount write with the controller's own rights"
    )
    default_service_account: str = Field(
        "gitsync-deployer",
        description="ServiceAccount that writes for Agents which no Application with one applied, in the namespace of"
        " the Agent; empty: none",
    )
    agent_wave: str = Field(
        "10%",
        pattern=r"^[1-9][0-9]{0,3}%?$",
        description="Agents, as a number or percentage, that replace their Pods at one time where a Secret that they"
        " share changed or where they are upgraded",
    )
    reasoner_hosts: str = Field("", description="hosts, comma-separated, whose reasoners Applications may use")
    prometheus: str = Field("", description="URL of the Prometheus server for the analysis after a sync")
    prometheus_token_file: AbsolutePath | None = Field(None, description="file with the bearer token for Prometheus")
    traces: str = Field(
        "", description="URL of an OpenTelemetry collector (OTLP over HTTP) that gets a trace of each reconcile"
    )
    namespace: str = Field("gitsync", description="namespace of the controller's own Leases")
    namespaces: str = Field("", description="namespaces to watch, comma-separated; empty: all")
    adopt_managers: str = Field(
        "", description="field managers whose fields become ours, comma-separated; empty: kubectl, Argo CD, Flux, Helm"
    )
    replicas: bool = Field(False, description="share Applications with other replicas by Leases; needs PostgreSQL")
    lease_seconds: float = Field(
        15.0, ge=1, description="seconds after which the Applications of a silent replica are taken over"
    )
    install_crds: bool = Field(True, description="install the CustomResourceDefinitions at start")
    # anywhere else the dashboard requires users or a token
    web_host: str = Field("127.0.0.1", description="address of the dashboard")
    web_port: int = Field(8080, ge=0, le=65535, description="port of the dashboard")

    users: AbsolutePath | None = Field(None, description="file of the users who sign in with a token of their own")
    # SecretStr: its repr is masked, so that settings may be logged
    web_token: SecretStr = Field(
        SecretStr(""), description="shared token for the dashboard; required off loopback without users"
    )
    metrics_token: SecretStr = Field(
        SecretStr(""), description="token that /metrics requires; empty: open while no policy names viewers"
    )
    web_session_hours: float = Field(12.0, gt=0, le=8760, description="hours after which users sign in again")
    web_session_key: SecretStr = Field(
        SecretStr(""), description="key of sessions, the same for all replicas; empty: one in the data folder"
    )
    oidc_issuer: str = Field("", description="URL of a provider of OpenID Connect where users sign in")
    oidc_client_id: str = Field("", description="identifier of the dashboard at the provider")
    oidc_client_secret: SecretStr = Field(SecretStr(""), description="its secret at the provider")
    oidc_name_claim: str = Field("email", description="claim of the ID token with the name of a user")
    oidc_groups_claim: str = Field("groups", description="claim of the ID token with the groups of a user")
    web_proxy: str = Field("", description="addresses or networks, comma-separated, of the proxy in front")
    web_proxy_users: bool = Field(False, description="trust that proxy's X-Forwarded-User and X-Forwarded-Groups")
    web_url: str = Field("", description="public URL of the dashboard; with it, requests for other hosts are rejected")
    web_read_only: bool = Field(False, description="a dashboard without buttons")
    notifications: AbsolutePath | None = Field(None, description="file with rules for notifications")
    log_level: Literal["", "debug", "info", "warning", "error"] = Field(
        "", description="level of the log; empty: info, and warning on a terminal"
    )
    kubernetes_events: bool = Field(False, description="write Kubernetes Events about Applications")
    audit_sink_secret: SecretStr = Field(
        SecretStr(""), description="token of the API server's audit webhook; without one its events are rejected"
    )
    webhook_secret: SecretStr = Field(SecretStr(""), description="secret of push events; without one they are rejected")

    def repositories(
        self, folder: Path, *, file_urls: bool = False, confinement: Confinement | None = None
    ) -> Repositories:
        """
        Return the Git repositories, mirrored below a folder; ``file_urls`` allows those of this machine.

        The ``confinement`` is that of git where it reads what servers send; the default conceals nothing.
        """
        from gitsync.integrations.artifacts import ArtifactClient
        from gitsync.source.landlock import Confinement
        from gitsync.source.remote import Transport
        from gitsync.source.repositories import Repositories
        from gitsync.source.snapshot import SourceLimits
        from gitsync.source.validation import SAFE_SCHEMES, PlainHosts

        limits = SourceLimits(
            file_bytes=self.file_mib << 20,
            seconds=self.git_seconds,
            pack_bytes=self.git_pack << 20,
            mirror_bytes=self.git_mirror << 20,
            artifact_bytes=self.artifact_mib << 20,
            memory_bytes=self.git_memory << 20,
        )
        schemes = SAFE_SCHEMES | ({"file"} if file_urls else frozenset())
        plain = PlainHosts.parse(self.git_http_hosts, self.git_http_sign_in)
        transport = Transport(
            tuple(sorted(schemes)), plain, limits, self.git_ca, confinement=confinement or Confinement()
        )
        return Repositories(folder, transport, ArtifactClient())

    def key_services(self) -> KeyServices:
        """Return what opens data keys of SOPS; credentials go without TLS to the hosts that Git sends them to."""
        from gitsync.integrations.key_services import KeyServices
        from gitsync.source.validation import PlainHosts

        return KeyServices(PlainHosts.parse("", self.git_http_sign_in).allow_credentials)

    @property
    def namespaces_read(self) -> tuple[str, ...]:
        """The namespaces in which the controller lists and watches, one that is empty for all at once."""
        return tuple(sorted({part.strip() for part in self.namespaces.split(",")} - {""})) or ("",)

    @property
    def database_url(self) -> str:
        """The URL of the history database."""
        return self.database or f"sqlite:///{self.data / 'history.db'}"
