"""Settings: flags and environment, read once into one frozen value."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """
    Everything that can be set from outside; each has an environment variable ``GITSYNC_`` plus its name.

    What a command line gives wins over the environment.
    """

    model_config = SettingsConfigDict(env_prefix="GITSYNC_", frozen=True, extra="ignore")

    kubeconfig: str = Field("", description="kubeconfig file; empty: the usual places, then in-cluster")
    context: str = Field("", description="context of the kubeconfig")
    data: Path = Field(Path(".gitsync"), description="folder for mirrors, history and the sandbox's state")
    database: str = Field("", description="history database URL; empty: SQLite in the data folder")
    audit_days: int = Field(0, ge=0, description="days after which audit records are dropped; 0: never")
    workers: int = Field(4, ge=1, le=64, description="applications synced at a time")
    writes: int = Field(16, ge=1, le=64, description="writes to the cluster at a time")
    render_workers: int = Field(2, ge=1, le=32, description="isolated processes that render")
    render_seconds: float = Field(60.0, gt=0, description="time limit of one render")
    render_memory: int = Field(1024, ge=128, description="memory limit of a render process in MiB")
    allow_file_urls: bool = Field(False, description="allow file:// repositories, as the demo needs")
    policies: Path | None = Field(None, description="folder of Policy files with rules that manifests must meet")
    reasoner_hosts: str = Field("", description="hosts, divided by commas, that Applications may ask about plans")
    prometheus: str = Field("", description="URL of the Prometheus server that Applications may ask after a sync")
    prometheus_token_file: Path | None = Field(None, description="file with the bearer token for Prometheus")
    namespace: str = Field("gitsync", description="namespace of the controller's own Leases")
    namespaces: str = Field("", description="namespaces to watch, divided by commas; empty: all")
    replicas: bool = Field(False, description="divide Applications with other replicas by Leases; wants PostgreSQL")
    lease_seconds: float = Field(15.0, ge=1, description="a replica silent for so long has its Applications taken over")
    install_crds: bool = Field(True, description="install the custom resource definitions at start, if allowed")
    web_host: str = Field("127.0.0.1", description="address of the dashboard")
    web_port: int = Field(8080, ge=0, le=65535, description="port of the dashboard")

    users: Path | None = Field(None, description="file of the people who sign in with a token of their own")
    web_token: SecretStr = Field(SecretStr(""), description="token that the dashboard asks for; needed off loopback")
    web_proxy: str = Field("", description="addresses or networks, divided by commas, of the proxy in front")
    web_proxy_users: bool = Field(False, description="let that proxy say who asks: X-Forwarded-User and -Groups")
    web_url: str = Field("", description="public URL of the dashboard; with it, other host names are refused")
    web_read_only: bool = Field(False, description="a dashboard without buttons")
    webhook_secret: SecretStr = Field(SecretStr(""), description="secret of push events; without one they are refused")

    @property
    def database_url(self) -> str:
        """The URL of the history database."""
        return self.database or f"sqlite:///{self.data / 'history.db'}"
