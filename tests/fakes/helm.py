"""A Helm that prints the templates of a chart as they are, and remembers what it was asked for."""

from __future__ import annotations

from gitsync.objects.charts import ChartFile, ChartOptions, HelmFailed


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
