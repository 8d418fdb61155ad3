"""Helm charts: what is asked of Helm, and the port that it is asked through."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

RELEASE: Final = "release-name"
"""The name of a release without a name, as ``helm template`` has it."""


class ClusterValues(NamedTuple):
    """
    The YAML text of values in a ConfigMap or Secret; ``name`` names that, for errors.

    Without a ``text`` they were not read: only a controller and the commands that ask a cluster read them.
    """

    name: str
    text: str | None = None
    is_secret: bool = False


class ChartOptions(NamedTuple):
    """
    How a chart is rendered: its release, its values beside the defaults, and what its templates learn of the cluster.

    ``value_files`` are paths relative to the chart, or to the root of the repository with a leading slash; later ones
    override earlier ones. ``cluster_values`` override those, and ``values``, a YAML text, overrides them all. An empty
    ``kube_version`` is Helm's own. ``is_kustomized``: Kustomize writes what Helm prints once more.
    """

    release: str = RELEASE
    namespace: str = "default"
    value_files: tuple[str, ...] = ()
    values: str = ""
    skips_missing_files: bool = False
    includes_crds: bool = True
    skips_hooks: bool = False
    skips_tests: bool = False
    kube_version: str = ""
    api_versions: tuple[str, ...] = ()
    cluster_values: tuple[ClusterValues, ...] = ()
    is_kustomized: bool = False

    @property
    def has_secrets(self) -> bool:
        """Whether what is rendered with them may have values of Secrets."""
        return any(item.is_secret for item in self.cluster_values)


class ChartFile(NamedTuple):
    """A file that Helm reads: its path, inside the chart or in the repository, and its content."""

    path: str
    content: bytes


class HelmFailed(Exception):
    """Helm rejected a chart or its values; the text is its own, with paths that begin with the name of the chart."""


class Helm(Protocol):
    """Renders charts without network, credentials and cluster: ``lookup`` finds nothing."""

    def template(self, chart: tuple[ChartFile, ...], values: tuple[ChartFile, ...], options: ChartOptions) -> bytes:
        """
        Return the YAML documents that ``helm template`` prints for the files of a chart.

        ``values`` replace the value files of the options. Raise HelmFailed with Helm's reason, and InvalidInput where
        Helm is not installed or reaches a limit.
        """
        ...
