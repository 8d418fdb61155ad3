"""The page of one object: conditions, relations, Events and logs."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from gitsync.errors import Rejected
from gitsync.kube.references import references
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.ports import KubernetesEvent, ResourceView
from gitsync.server.queries.object_details import ContainerLog, telling_log
from tests.server.conftest import Open, Site
from tests.server.fakes import application, resource

OBJECT = "/apps/gitsync/shop/object"
WEB = "apps/Deployment/shop/web"
POD = {"containers": [{"name": "app"}, {"name": "proxy"}], "initContainers": [{"name": "setup"}]}
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "serviceAccountName": "runner",
        "volumes": [
            {"configMap": {"name": "settings"}},
            {"persistentVolumeClaim": {"claimName": "data"}},
            {"projected": {"sources": [{"secret": {"name": "keys"}}]}},
        ],
        "containers": [
            {
                "name": "app",
                "envFrom": [{"configMapRef": {"name": "model"}}],
                "env": [{"name": "A", "value": "1"}, {"name": "K", "valueFrom": {"secretKeyRef": {"name": "keys"}}}],
            }
        ],
    },
}


def live(item: ResourceView, **members: Any) -> ResourceView:
    return replace(item, change=replace(item.change, live={**(item.change.live or {}), **members}))


def shop(site: Open) -> Site:
    condition = {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "no <Pods>"}
    web = live(resource("web", "Deployment"), spec={"template": TEMPLATE}, status={"conditions": [condition, "broken"]})
    service = live(resource("front", "Service"), spec={"selector": {"app": "web"}})
    opened = site([application(resources=[web, service, resource("settings")])])
    pods: list[Manifest] = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name}, "spec": POD}
        for name in ("web-b", "web-a")
    ]
    opened.engine.view.children["uid-web"] = tuple(pods)
    return opened


def test_it_shows_conditions_and_relations(site: Open) -> None:
    opened = shop(site)
    page = " ".join(opened.get(f"{OBJECT}?ref={WEB}").text.split())
    assert "MinimumReplicasUnavailable<small>no &lt;Pods&gt;" in page
    assert '<a href="/apps/gitsync/shop/object?ref=/ConfigMap/shop/settings">ConfigMap settings</a>' in page
    assert "Secret keys" in page
    assert 'ServiceAccount runner <small class="inline">runs as' in page
    used = opened.get(f"{OBJECT}?ref=/ConfigMap/shop/settings").text
    assert '<dt>Used by</dt><dd><a href="/apps/gitsync/shop/object?ref=apps/Deployment/shop/web">' in used
    selecting = opened.get(f"{OBJECT}?ref=/Service/shop/front").text
    assert (
        '<dt>Selects the Pods of</dt><dd><a href="/apps/gitsync/shop/object?ref=apps/Deployment/shop/web">' in selecting
    )


def test_it_shows_what_pods_use(site: Open) -> None:
    opened = shop(site)
    used = {"containers": [{"usage": {"cpu": "120m", "memory": "40Mi"}}, {"usage": {"cpu": "30m", "memory": "8Mi"}}]}
    opened.engine.pod_usage.known["shop", "web-a"] = used
    assert opened.get(f"{OBJECT}?ref={WEB}").text.count("uses 150m cpu and 48Mi memory") == 1


def test_what_pods_used_is_a_chart_once_there_are_two_numbers(site: Open) -> None:
    opened = shop(site)
    used = {"containers": [{"usage": {"cpu": "120m", "memory": "40Mi"}}]}
    opened.engine.pod_usage.known["shop", "web-a"] = used
    assert 'class="charts"' not in opened.get(f"{OBJECT}?ref={WEB}").text
    used["containers"][0]["usage"]["cpu"] = "240m"
    page = opened.get(f"{OBJECT}?ref={WEB}").text
    assert re.findall(r"<title id[^>]*>(.*?) since", page) == [
        "CPU: 240m now, between 120m and 240m",
        "Memory: 40Mi now, between 40Mi and 40Mi",
    ]
    assert 'class="charts"' not in opened.get(f"{OBJECT}?ref=/ConfigMap/shop/settings").text


def test_an_object_without_pods_reads_no_usage(site: Open) -> None:
    opened = shop(site)
    opened.get(f"{OBJECT}?ref=/ConfigMap/shop/settings")
    assert opened.engine.pod_usage.reads == 0


def test_a_summary_asks_nothing_of_the_cluster(site: Open) -> None:
    opened = shop(site)
    opened.get(f"{OBJECT}?ref={WEB}")
    assert opened.engine.details.asked == []


def test_events_are_those_of_the_object(site: Open) -> None:
    opened = shop(site)
    event = KubernetesEvent("Warning", "BackOff", "restarting <b>app</b>", 7, "2026-03-01T11:58:00Z", "kubelet")
    opened.engine.details.found = [event]
    page = opened.get(f"{OBJECT}/events?ref={WEB}").text
    assert "restarting &lt;b&gt;app&lt;/b&gt;" in page
    assert '<td class="num" data-label="Times">7</td>' in page
    assert opened.engine.details.asked == [(ObjectRef("apps", "Deployment", "shop", "web"),)]


def test_events_of_an_object_it_may_not_read_are_not_shown(site: Open) -> None:
    item = resource("keys")
    reason = "namespace shop is not allowed by policy bank"
    change = replace(item.change, desired=item.change.live, live=None, unobserved=reason)
    opened = site([application(resources=[replace(item, change=change)])])
    opened.engine.view.children.clear()
    opened.get(f"{OBJECT}/events?ref=/ConfigMap/shop/keys")
    opened.get("/api/v1/applications/gitsync/shop/events?ref=/ConfigMap/shop/keys")
    assert opened.engine.details.asked == []


def test_logs_are_of_a_pod_of_the_object_and_one_container(site: Open) -> None:
    opened = shop(site)
    opened.engine.details.log = "started\n\x1b[31m\u202efailed <script>"
    page = opened.get(f"{OBJECT}/logs?ref={WEB}").text
    assert "started\n\\u202efailed &lt;script&gt;" in page
    assert "data-follow" not in page
    chosen = opened.get(f"{OBJECT}/logs?ref={WEB}&pod=web-b&container=proxy&previous=true&lines=5&follow=true").text
    assert "data-follow" in chosen
    opened.get(f"{OBJECT}/logs?ref={WEB}&pod={quote('../other')}&container=no-such")
    assert opened.engine.details.asked == [
        ("shop", "web-a", "app", False, 200),
        ("shop", "web-b", "proxy", True, 5),
        ("shop", "web-a", "app", False, 200),
    ]


def test_logs_of_all_pods_are_searched_together(site: Open) -> None:
    opened = shop(site)
    opened.engine.details.log = "Started\nGET /healthz\nfailed to connect"
    page = opened.get(f"{OBJECT}/logs?ref={WEB}&pod=*").text
    for pod in ("web-a", "web-b"):
        assert f"<b>{pod}</b> Started\n<b>{pod}</b> GET /healthz\n<b>{pod}</b> failed to connect" in page
    found = opened.get(f"{OBJECT}/logs?ref={WEB}&pod=*&q=FAILED").text
    assert "<b>web-a</b> failed to connect\n<b>web-b</b> failed to connect</pre>" in found
    assert "2 of 6 lines contain “FAILED”." in found
    assert "0 of 3 lines contain “absent”." in opened.get(f"{OBJECT}/logs?ref={WEB}&q=absent").text
    assert {asked[1] for asked in opened.engine.details.asked[:2]} == {"web-a", "web-b"}


PROBES = (
    'INFO: 127.0.0.1:1 - "GET /readyz HTTP/1.1" 200 OK',
    '10.0.0.1 - - [01/Mar/2026] "GET /custom HTTP/1.1" 204 0 "-" "kube-probe/1.36"',
    '"HEAD /health?full=1 HTTP/2" 200',
)
TELLING = (
    'INFO: 127.0.0.1:1 - "GET /readyz HTTP/1.1" 503 Service Unavailable',
    '"GET /healthy-recipes HTTP/1.1" 200',
    '"POST /ask HTTP/1.1" 200',
    "GET /healthz",
)


def test_probes_that_succeeded_are_left_out_of_a_log(site: Open) -> None:
    opened = shop(site)
    opened.engine.details.log = "\n".join((*PROBES, *TELLING))

    def shown(query: str) -> str:
        page = html.unescape(opened.get(f"{OBJECT}/logs?ref={WEB}{query}").text)
        return "".join(re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL))

    for line in PROBES:
        assert line not in shown("")
        assert line in shown("&probes=true")
        assert line in shown(f"&q={quote(line[-12:])}"), "a search reads all lines"
    for line in TELLING:
        assert line in shown("")
    assert "3 lines of probes that succeeded are left out." in opened.get(f"{OBJECT}/logs?ref={WEB}").text
    opened.engine.details.log = PROBES[0]
    only = opened.get(f"{OBJECT}/logs?ref={WEB}").text
    assert "1 line of a probe that succeeded is left out." in only
    assert "The log is empty." not in only


def test_a_log_is_downloaded_as_it_is_shown(site: Open) -> None:
    opened = shop(site)
    opened.engine.details.log = "2026-03-01T11:58:00Z started\n2026-03-01T11:58:01Z ERROR: failed\n"

    def downloaded(query: str) -> tuple[str, str]:
        page = opened.get(f"{OBJECT}/logs?ref={WEB}&{query}").text
        ((name, link),) = re.findall(r'download="([^"]*)" href="([^"]*)"', page)
        answer = opened.get(html.unescape(link))
        assert answer.headers["content-type"].startswith("text/plain")
        return name, answer.text

    assert downloaded("pod=web-b") == ("web-b-app.log", "started\nERROR: failed\n")
    assert opened.engine.details.asked[-1] == ("shop", "web-b", "app", False, 2000)
    assert downloaded("pod=web-b&previous=true&container=proxy&q=start&times=true") == (
        "web-b-proxy.log",
        "2026-03-01T11:58:00Z started\n",
    )
    assert opened.engine.details.asked[-1] == ("shop", "web-b", "proxy", True, 2000)
    both = "web-a ERROR: failed\nweb-b ERROR: failed\n"
    assert downloaded("pod=*&level=error") == ("all-app.log", both)


def test_a_download_that_cannot_be_read_is_no_empty_file(site: Open) -> None:
    opened = shop(site)
    opened.engine.details.error = Rejected("pods/log is forbidden", code=403)
    answer = opened.get(f"{OBJECT}/logs.txt?ref={WEB}")
    assert (answer.status, answer.text) == (502, "The log cannot be read: pods/log is forbidden")


def test_the_form_of_a_log_has_each_choice(site: Open) -> None:
    query = f"ref={WEB}&pod=*&level=error&q=fail&times=true&wrap=false&probes=true"
    page = shop(site).get(f"{OBJECT}/logs?{query}").text
    form = re.findall(r'<form class="filters".*?</form>', page, re.DOTALL)[0]
    selected = re.findall(r'<option(?: value="([^"]*)")? selected>([^<]*)', form)
    assert selected == [("*", "all 2 Pods"), ("", "app"), ("error", "errors")]
    others = [text for _, text in re.findall(r'<option(?: value="([^"]*)")? ?>([^<]*)', form)]
    assert others == ["web-a", "web-b", "proxy", "setup", "all", "warnings and errors"]
    assert re.findall(r'<input name="q" type="search" maxlength="200" value="([^"]*)"', form) == ["fail"]
    boxes = re.findall(r'type="checkbox" name="(\w+)" value="true"( checked)?', form)
    assert boxes == [("previous", ""), ("probes", " checked"), ("times", " checked"), ("wrap", ""), ("follow", "")]


def test_manifests_are_folded_numbered_and_copied(site: Open) -> None:
    item = live(resource("web", "Deployment"), spec={"template": TEMPLATE})
    item = replace(item, change=replace(item.change, desired=item.change.live))
    page = site([application(resources=[item])]).get(f"{OBJECT}?ref={WEB}").text
    for title in ("In the cluster", "In Git"):
        section = re.findall(rf'<section aria-label="{title}">.*?</section>', page, re.DOTALL)[0]
        assert section.count("data-copy") == 1
        folds = re.findall(r"<details open>.*?</details>", section, re.DOTALL)
        assert folds
        lines = []
        for number, head, rest in re.findall(
            r'<i aria-hidden="true">(\d+)</i><code data-line>(.*?)</code>(.*?)(?=<i |$)', section, re.DOTALL
        ):
            lines.append((int(number), head))
            for numbers, body in re.findall(
                r'<pre aria-hidden="true">(.*?)</pre>\s*<pre data-line>(.*?)</pre>', rest, re.DOTALL
            ):
                lines += zip(map(int, numbers.split()), body.split("\n"), strict=True)
        assert [number for number, _ in lines] == list(range(1, len(lines) + 1))
        assert lines[0][1].startswith("apiVersion")


def test_lines_of_a_log_have_times_levels_and_pods(site: Open) -> None:
    opened = shop(site)
    opened.engine.details.log = "2026-03-01T11:58:00Z <started>\n2026-03-01T11:58:01Z ERROR: failed\n"
    page = opened.get(f"{OBJECT}/logs?ref={WEB}&times=true&wrap=false&pod=*").text
    time = '<time datetime="2026-03-01T11:58:0{0}Z">2026-03-01 11:58:0{0}</time> <b>{1}</b> {2}'.format
    error = '<span class="l-error">ERROR: failed</span>'
    assert (
        "\n".join(
            (
                time(0, "web-a", "&lt;started&gt;"),
                time(0, "web-b", "&lt;started&gt;"),
                time(1, "web-a", error),
                time(1, "web-b", error),
            )
        )
        in page
    )
    assert 'class="manifest log unwrapped"' in page
    errors = opened.get(f"{OBJECT}/logs?ref={WEB}&level=error").text
    assert f">{error}</pre>" in errors
    assert "1 of 2 lines are errors." in errors
    assert "unwrapped" not in errors


def test_a_log_without_times_is_not_shown_with_others(site: Open) -> None:
    opened = shop(site)
    opened.engine.details.log = "2026-03-01T11:58:00Z started\nready\n"
    page = opened.get(f"{OBJECT}/logs?ref={WEB}&times=true").text
    assert "The API server does not tell when each line was written." in page
    assert ">2026-03-01T11:58:00Z started\nready</pre>" in page


def test_a_missing_permission_is_shown_on_the_page(site: Open) -> None:
    opened = shop(site)
    opened.engine.details.error = Rejected("pods/log is forbidden", code=403)
    for tab, text in (("logs", "The log cannot be read"), ("events", "The Events cannot be read")):
        answer = opened.get(f"{OBJECT}/{tab}?ref={WEB}")
        assert (answer.status, f"{text}: pods/log is forbidden" in answer.text) == (200, True)


def test_an_object_of_no_application_is_not_found(site: Open) -> None:
    opened = shop(site)
    for tab in ("", "/events", "/logs"):
        assert opened.get(f"{OBJECT}{tab}?ref=/Secret/other/keys").status == 404
        assert opened.get(f"{OBJECT}{tab}?ref=nonsense").status == 404
    assert opened.engine.details.asked == []


def test_relations_of_bindings_autoscalers_and_ingresses() -> None:
    def found(kind: str, **members: Any) -> list[str]:
        ref = ObjectRef("g", kind, "shop", "x")
        return [f"{item.relation} {item.ref}" for item in references(ref, {"kind": kind, **members})]

    role, subject = {"kind": "Role", "name": "reader"}, {"kind": "ServiceAccount", "name": "runner"}
    binding = found("RoleBinding", roleRef=role, subjects=[subject, {"kind": "User", "name": "ada"}])
    assert binding == ["grants Role shop/reader", "to ServiceAccount shop/runner"]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    assert found("HorizontalPodAutoscaler", spec={"scaleTargetRef": target}) == ["scales Deployment shop/web"]
    path = {"backend": {"service": {"name": "front"}}}
    assert found("Ingress", spec={"rules": [{"http": {"paths": [path]}}]}) == ["routes to Service shop/front"]


CRASHED = {"terminated": {"exitCode": 1}}
WAITS = {"waiting": {"reason": "CrashLoopBackOff"}}
RUNS = {"running": {}}


def container(name: str, state: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "ready": state == RUNS, **members}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, ContainerLog("app", is_previous=False)),
        ({"containerStatuses": [container("app", RUNS), container("proxy", WAITS, lastState=CRASHED)]},
         ContainerLog("proxy", is_previous=True)),
        ({"containerStatuses": [container("app", RUNS), container("proxy", CRASHED)]},
         ContainerLog("proxy", is_previous=False)),
        ({"containerStatuses": [container("app", {"waiting": {"reason": "PodInitializing"}})],
          "initContainerStatuses": [container("fetch", WAITS, lastState=CRASHED)]},
         ContainerLog("fetch", is_previous=True)),
        ({"containerStatuses": [container("app", RUNS, lastState=CRASHED)]}, ContainerLog("app", is_previous=False)),
        ({"containerStatuses": [container("proxy", {"waiting": {"reason": "ErrImagePull"}})]},
         ContainerLog("proxy", is_previous=False)),
        ({"containerStatuses": None}, ContainerLog("app", is_previous=False)),
    ],
)  # fmt: skip
def test_the_log_that_explains_a_pod_is_that_of_its_failing_container(
    status: dict[str, Any], expected: ContainerLog
) -> None:
    pod = {"spec": {"containers": [{"name": "app"}, {"name": "proxy"}]}, "status": status}
    assert telling_log(pod) == expected


def test_logs_open_at_the_pod_that_fails(site: Open) -> None:
    opened = shop(site)
    pods = [part for parts in opened.engine.view.children.values() for part in parts if part["kind"] == "Pod"]
    last = max(pods, key=lambda pod: pod["metadata"]["name"])
    failing = {"containerStatuses": [container("proxy", WAITS, lastState=CRASHED, restartCount=5)], "phase": "Running"}
    for uid, parts in opened.engine.view.children.items():
        opened.engine.view.children[uid] = tuple(
            {**part, "status": failing} if part is last else part for part in parts
        )
    name = last["metadata"]["name"]
    page = opened.get(f"{OBJECT}/logs?ref={WEB}").text
    assert re.search(r'name="previous" value="true" checked', page)
    opened.get(f"{OBJECT}/logs?ref={WEB}&pod={name}&container=proxy&previous=false&lines=5")
    opened.get(f"/api/v1/applications/gitsync/shop/logs?ref={WEB}")
    assert opened.engine.details.asked == [
        ("shop", name, "proxy", True, 200),
        ("shop", name, "proxy", False, 5),
        ("shop", name, "proxy", False, 200),
    ]


def test_relations_have_the_pods_and_the_health_of_parts(site: Open) -> None:
    opened = shop(site)
    children = opened.engine.view.children
    (owner,) = [uid for uid, parts in children.items() if any(part["kind"] == "Pod" for part in parts)]
    old = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 0}}
    children[owner] = (*children[owner], {**old, "metadata": {"name": "web-old", "namespace": "shop", "uid": "old"}})
    failing = {"containerStatuses": [container("proxy", WAITS, lastState=CRASHED, restartCount=5)], "phase": "Running"}
    children[owner] = tuple({**part, "status": failing} if part["kind"] == "Pod" else part for part in children[owner])
    page = opened.get(f"{OBJECT}?ref={WEB}").text
    pods = page.partition("<dt>Pods</dt>")[2].partition("</dd>")[0]
    assert re.findall(r">Pod (web-[ab])</a>", pods) == ["web-a", "web-b"]
    assert pods.count("Degraded") == 2
    assert pods.count("CrashLoopBackOff, 5 restarts, ended last: ") == 2
    # a line each: their facts are long
    assert pods.count('<span class="line">') == 2
    assert "web-old" not in page
