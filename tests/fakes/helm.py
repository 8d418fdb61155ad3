"""Helms that print the templates of a chart as they are, or with its values, and remember what they were asked for."""

from __future__ import annotations

import re
from typing import Any

import yaml

from gitsync.objects.charts import ChartFile, ChartOptions, HelmFailed
from gitsync.render.kustomize.charts import merged


class FakeHelm:
    """Implements ``gitsync.objects.charts.Helm``; ``failure`` is the reason of the next failures."""

    def __init__(self, failure: str = "") -> None:
        self.failure = failure
        self.charts: list[dict[str, bytes]] = []
        self.values: list[dict[str, bytes]] = []
        self.options: list[ChartOptions] = []

    def template(self, chart: tuple[ChartFile, ...], values: tuple[ChartFile, ...], options: ChartOptions) -> bytes:
        self.charts.append({file.path: file.content for file in chart})
        self.values.append({file.path: file.content for file in values})
        self.options.append(options)
        if self.failure:
            raise HelmFailed(self.failure)
        return b"".join(
            b"---\n# Source: web/" + file.path.encode() + b"\n" + file.content
            for file in chart
            if "templates/" in file.path
        )


class ValuesHelm(FakeHelm):
    """A Helm that replaces ``{{ .Values.a.b }}`` in templates, and nothing else; a value that is absent is empty."""

    def template(self, chart: tuple[ChartFile, ...], values: tuple[ChartFile, ...], options: ChartOptions) -> bytes:
        defaults = next((file.content for file in chart if file.path == "values.yaml"), b"")
        known: dict[str, Any] = {}
        for content in (defaults, *(file.content for file in values)):
            known = merged(known, yaml.safe_load(content) or {})
        text = super().template(chart, values, options).decode()
        return re.sub(r"\{\{ \.Values\.([\w.]+) \}\}", lambda match: _printed(known, match[1]), text).encode()


def _printed(values: Any, path: str) -> str:
    for name in path.split("."):
        values = values.get(name) if isinstance(values, dict) else None
    return "" if values is None else str(values).lower() if isinstance(values, bool) else str(values)
