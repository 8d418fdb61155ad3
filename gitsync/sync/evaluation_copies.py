"""
The preview copy of an object that declares cases: what it is made of, and the Job that asks it. Pure.

A copy of an object with Pods runs in the Pod of the Job itself, as sidecars of the container that asks; one of
another platform is an object of its own, which that platform runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from gitsync.agents.evaluation.cases import parse_cases
from gitsync.agents.expansion.checks import evaluation_container, evaluation_volume
from gitsync.agents.model.evaluation import Evaluation
from gitsync.errors import InvalidInput
from gitsync.objects.keys import APPLICATION_LABEL, EVALUATION_ANNOTATION, EVALUATION_LABEL, TRACKING_ID
from gitsync.objects.manifest import Manifest, annotations_of, at, content_hash, labels_of, metadata_of, uid_of
from gitsync.objects.parsing import Section, Text, parse_spec
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.risk.agent_fields import EVALUATED, AgentFields, behaviour_of, named_objects, renamed
from gitsync.render.yaml.reader import read_all

CASES: Final = "cases.jsonl"
SETTINGS: Final = "evaluation.yaml"
"""The members of the ConfigMap that the annotation names."""
_PULL_SECONDS: Final = 60
"""Seconds for the image of the evaluation itself, as for the checks of Agents."""
KEPT_SECONDS: Final = 600
"""Seconds after its end in which the Job is deleted by the cluster, also where no gitsync runs any more."""
_LONGEST_NAME: Final = 40
"""Characters of the object's name in that of its copy: a label value has 63, and controllers add suffixes."""
_UNREADY: Final = "gitsync.dev/serves"
"""The condition that a Pod of a copy never gets, so that no Service sends requests to it."""
_ADDRESS: Final = "EVALUATED_POD_IP"


class CopyTarget(Section):
    """Where a copy is asked, and what it is compared with."""

    port: int = Field(8080, ge=1, le=65535, description="The port at which the agent answers.")
    path: Text = Field("/", description="The path of its endpoint.")
    start_seconds: int = Field(
        180,
        ge=1,
        le=3600,
        description="How long it may take until its first answer: images are pulled, a model is loaded.",
    )
    serving: str = Field("", description="The URL of what serves, for `mustPass` and `noWorseThanServing`.")


@dataclass(frozen=True, slots=True)
class EvaluatedObject:
    """
    An object that declares cases, as a commit has it.

    ``declared`` is the object, ``read`` what it reads of the same commit, ``config`` the ConfigMap with cases and
    settings, ``live`` the object that serves, None where none does.
    """

    ref: ObjectRef
    fields: AgentFields
    declared: Manifest
    read: Mapping[ObjectRef, Manifest]
    config: Manifest
    live: Manifest | None = None

    @property
    def digest(self) -> str:
        """What a verdict is about: how the object behaves, what it reads, and the cases."""
        contents = [
            [ref.path, _content(manifest)] for ref, manifest in sorted(self.read.items()) if ref.kind != "Secret"
        ]
        behaviour = behaviour_of(self.declared.get("spec"), self.fields)
        return content_hash([behaviour, contents, self.config.get("data")])[:10]

    def settings(self) -> tuple[Evaluation, CopyTarget]:
        """Return the settings; raise InvalidInput that names the line of a case or the field that is not valid."""
        data = self.config.get("data") or {}
        place = ref_of(self.config).name
        parse_cases(str(data.get(CASES, "")), f"{place}/{CASES}")
        members = next(iter(read_all(str(data.get(SETTINGS, "")), f"{place}/{SETTINGS}")), None) or {}
        if not isinstance(members, dict):
            raise InvalidInput("is not a mapping", location=f"{place}/{SETTINGS}")
        names = {field.alias or name for name, field in CopyTarget.model_fields.items()}
        own = {name: value for name, value in members.items() if name in names}
        rest = {name: value for name, value in members.items() if name not in own}
        cases = {"name": place, "key": CASES}
        evaluation = parse_spec(Evaluation, {**rest, "cases": cases}, f"{place}/{SETTINGS}")
        return evaluation, parse_spec(CopyTarget, own, f"{place}/{SETTINGS}")


def evaluated_object(
    ref: ObjectRef, declared: Mapping[ObjectRef, Manifest], live: Mapping[ObjectRef, Manifest]
) -> EvaluatedObject | None:
    """
    Return an object with the annotation for cases, None for one without it.

    Raise InvalidInput where its kind cannot be evaluated, or the commit does not declare the ConfigMap.
    """
    manifest = declared[ref]
    name = annotations_of(manifest).get(EVALUATION_ANNOTATION)
    if not name:
        return None
    fields = EVALUATED.get(ref.of)
    if fields is None:
        kinds = ", ".join(sorted(str(of) for of in EVALUATED))
        raise InvalidInput(f"{EVALUATION_ANNOTATION} is not for this kind", object=str(ref), hint=f"it is for {kinds}")
    config = declared.get(ObjectRef("", "ConfigMap", ref.namespace, name))
    if config is None:
        raise InvalidInput(
            f"{EVALUATION_ANNOTATION} names ConfigMap {name}, which the commit does not declare",
            object=str(ref),
            hint=f"add a ConfigMap with {CASES} and {SETTINGS} in namespace {ref.namespace}",
        )
    named = named_objects(manifest.get("spec"), ref.namespace, fields)
    read = {other: declared[other] for other in named & declared.keys()}
    return EvaluatedObject(ref, fields, manifest, read, config, live.get(ref))


def copy_name(ref: ObjectRef, digest: str, attempt: int) -> str:
    """Return the name of the Job, and of what is copied."""
    return f"{ref.name[:_LONGEST_NAME].rstrip('-.')}-eval-{digest[:8]}-{attempt}"


def copy_job(evaluated: EvaluatedObject, digest: str, attempt: int) -> Manifest:
    """Return the Job of an attempt; raise InvalidInput for settings that are not valid."""
    evaluation, target = evaluated.settings()
    name = copy_name(evaluated.ref, digest, attempt)
    # of the copy: those of the commit are applied only once it passed
    evaluation = evaluation.model_copy(update={"cases": evaluation.cases.model_copy(update={"name": name})})
    fields = evaluated.fields
    template = at(evaluated.declared, "spec", *fields.template, default={}) if fields.template else {}
    host = f"$({_ADDRESS})" if fields.template else f"{name}.{evaluated.ref.namespace}"
    port = target.port if fields.template else fields.service_port
    options = ["--url", f"http://{host}:{port}{target.path}", "--wait", str(target.start_seconds)]
    serving = target.serving
    if not serving and not fields.template and evaluated.live is not None:
        serving = f"http://{evaluated.ref.name}.{evaluated.ref.namespace}:{port}{target.path}"
    options += ["--serving", serving] if serving else []
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = evaluation_container(evaluation, tuple(options), context)
    address = {"name": _ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container = {**container, "env": [*container.get("env", ()), address]}
    pod = {
        **(
            _sidecars(evaluated, _names(evaluated, name))
            if fields.template
            else {"automountServiceAccountToken": False}
        ),
        "restartPolicy": "Never",
        "containers": [container],
    }
    pod["volumes"] = [*pod.get("volumes", ()), evaluation_volume(evaluation)]
    # NetworkPolicies of the agent hold for its copy; that Services select it too has no effect, see _UNREADY
    labels = {**(at(template, "metadata", "labels") or {}), EVALUATION_LABEL: name}
    annotations = at(template, "metadata", "annotations") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": evaluated.ref.namespace,
            "labels": {EVALUATION_LABEL: name},
            # whatever ends the object, such as a deleted Application, ends its evaluation
            **({"ownerReferences": [_owner(evaluated.live)]} if evaluated.live is not None else {}),
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": evaluation.limits.seconds + target.start_seconds + _PULL_SECONDS,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": labels, "annotations": dict(annotations)}, "spec": pod},
        },
    }


def copied_objects(evaluated: EvaluatedObject, job: Manifest) -> list[Manifest]:
    """Return what an attempt needs beside its Job, owned by it, so that it goes with the Job: also after a crash."""
    name = ref_of(job).name
    names = _names(evaluated, name)
    owner = _owner(job)
    copies = [_copied(evaluated.config, name, owner)]
    for ref, manifest in sorted(evaluated.read.items()):
        copies.append(_copied(manifest, names[ref], owner))
    if not evaluated.fields.template:
        spec = _with_names(evaluated, names, evaluated.declared["spec"])
        copies.append({**_copied(evaluated.declared, name, owner), "spec": spec})
    return copies


def _names(evaluated: EvaluatedObject, name: str) -> dict[ObjectRef, str]:
    """Return the names of the copies of what the object reads."""
    return {ref: f"{name}-{number}" for number, ref in enumerate(sorted(evaluated.read), 1)}


def _with_names(evaluated: EvaluatedObject, names: Mapping[ObjectRef, str], spec: Any) -> Any:
    for path, of in evaluated.fields.references:
        spec = renamed(spec, path, {ref.name: new for ref, new in names.items() if ref.of == of})
    return spec


def _sidecars(evaluated: EvaluatedObject, names: Mapping[ObjectRef, str]) -> dict[str, Any]:
    """Return the spec of a Pod with the containers of the object as sidecars, which end with the one that asks."""
    spec = _with_names(evaluated, names, evaluated.declared["spec"])
    pod = at(spec, *evaluated.fields.template, "spec", default={})
    claimed = [metadata_of(claim).get("name") for claim in at(spec, "volumeClaimTemplates", default=()) or ()]
    # a claim belongs to what serves: a copy that wrote to it would change that, and one node may hold it
    volumes: list[Any] = [
        {"name": volume["name"], "emptyDir": {}} if "persistentVolumeClaim" in volume else volume
        for volume in pod.get("volumes") or ()
    ]
    volumes += [{"name": name, "emptyDir": {}} for name in claimed]
    sidecars = [{**container, "restartPolicy": "Always"} for container in pod.get("containers") or ()]
    kept = {name: value for name, value in pod.items() if name not in ("containers", "hostname", "subdomain")}
    return {
        **kept,
        "initContainers": [*(pod.get("initContainers") or ()), *sidecars],
        "volumes": volumes,
        "readinessGates": [*(pod.get("readinessGates") or ()), {"conditionType": _UNREADY}],
    }


def _copied(manifest: Manifest, name: str, owner: Mapping[str, Any]) -> Manifest:
    """Return a copy of a declared object under another name, without what marks it as one of the Application."""
    marks = {APPLICATION_LABEL, TRACKING_ID, EVALUATION_ANNOTATION}
    labels = {key: value for key, value in labels_of(manifest).items() if key not in marks}
    annotations = {key: value for key, value in annotations_of(manifest).items() if key not in marks}
    metadata = {
        "name": name,
        "namespace": metadata_of(manifest).get("namespace"),
        "labels": {**labels, EVALUATION_LABEL: name},
        "annotations": annotations,
        "ownerReferences": [dict(owner)],
    }
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": metadata}


def _owner(manifest: Manifest) -> dict[str, Any]:
    ref = ref_of(manifest)
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": ref.kind,
        "name": ref.name,
        "uid": uid_of(manifest),
    }


def _content(manifest: Manifest) -> Sequence[Any]:
    return [manifest.get(member) for member in ("data", "binaryData", "spec")]
