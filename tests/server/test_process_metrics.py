"""The metrics of several processes are one page, in which each sample names its process."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from gitsync.ports import Cost, ProcessReport, Spent
from gitsync.server.metrics import with_others

OWN = """# HELP gitsync_syncs_total Finished syncs
# TYPE gitsync_syncs_total counter
gitsync_syncs_total{outcome="Succeeded"} 3.0
# HELP gitsync_behind Applications
# TYPE gitsync_behind gauge
gitsync_behind 1.0
"""
OTHER = OWN.partition("# HELP gitsync_behind")[0].replace("3.0", "4.0")


def samples(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {f"{one.name}{one.labels}": one.value for family in families for one in family.samples}


def test_each_sample_names_its_process_in_one_family() -> None:
    text = with_others(OWN, (ProcessReport("2", OTHER), ProcessReport("3", is_up=False)))
    assert text.count("# TYPE gitsync_syncs_total counter") == 1
    assert samples(text) == {
        "gitsync_syncs_total{'outcome': 'Succeeded', 'process': '1'}": 3,
        "gitsync_syncs_total{'outcome': 'Succeeded', 'process': '2'}": 4,
        "gitsync_behind{'process': '1'}": 1,
        "gitsync_process_up{'process': '1'}": 1,
        "gitsync_process_up{'process': '2'}": 1,
        "gitsync_process_up{'process': '3'}": 0,
    }


def test_costs_of_several_processes_are_added() -> None:
    first = Cost(1, 2, 3, {"plan": Spent(1.0, 0.5)})
    second = Cost(10, 20, 30, {"plan": Spent(0.5, 0.25), "apply": Spent(2.0, 1.0)})
    stages = {"plan": Spent(1.5, 0.75), "apply": Spent(2.0, 1.0)}
    assert first.plus(second) == Cost(11, 22, 33, stages)
