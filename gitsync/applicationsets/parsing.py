"""Read an ApplicationSet, and reject what no element can make valid."""

from __future__ import annotations

from gitsync.applicationsets.model.application_set import ApplicationSet, ApplicationSetSpec, Template
from gitsync.applicationsets.texts import has_parameters
from gitsync.errors import InvalidInput
from gitsync.objects.application import ApplicationSpec, owner_of_marks
from gitsync.objects.keys import (
    API_VERSION,
    APPLICATION_LABEL,
    APPLICATION_SET,
    APPROVE_DELETIONS,
    GIT_CHANGED,
    GIT_PUSHED,
    MANAGED_BY,
    PINNED_FROM,
    REQUESTED_SYNC,
    SET_LABEL,
    TEMPLATE_HASH,
    TRACKING_ID,
)
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of, uid_of
from gitsync.objects.parsing import check_spec, parse_spec
from gitsync.objects.ref import ref_of

_OURS = frozenset(
    {
        APPLICATION_LABEL,
        GIT_CHANGED,
        GIT_PUSHED,
        MANAGED_BY,
        PINNED_FROM,
        REQUESTED_SYNC,
        SET_LABEL,
        TEMPLATE_HASH,
        TRACKING_ID,
    }
)
"""Labels and annotations by which gitsync decides: a template must not set them."""
_NAME_LIMIT = 63


def parse_application_set(manifest: Manifest) -> ApplicationSet:
    """Return the set of a custom resource; raise InvalidInput naming the field that has the wrong form."""
    ref, meta = ref_of(manifest), metadata_of(manifest)
    if len(ref.name) > _NAME_LIMIT:
        raise InvalidInput(
            f"metadata.name has {len(ref.name)} characters; the label of its Applications takes {_NAME_LIMIT}",
            object=str(ref),
            hint="choose a shorter name",
        )
    spec = parse_spec(ApplicationSetSpec, manifest.get("spec"), "spec", object=str(ref))
    _check_template(spec.template, str(ref))
    return ApplicationSet(
        ref=ref,
        uid=uid_of(manifest),
        generation=int(meta.get("generation", 0)),
        spec=spec,
        owner=owner_of_marks(manifest, ref),
        approved=annotations_of(manifest).get(APPROVE_DELETIONS, ""),
    )


def check_set(manifest: Manifest) -> None:
    """Raise InvalidInput for an ApplicationSet that is not valid; other kinds are not checked."""
    if manifest.get("apiVersion") == API_VERSION and manifest.get("kind") == APPLICATION_SET.kind:
        parse_application_set(manifest)


def _check_template(template: Template, object: str) -> None:
    marks = {"labels": template.metadata.labels, "annotations": template.metadata.annotations}
    for member, values in marks.items():
        for name in values:
            if name in _OURS:
                where = f"spec.template.metadata.{member}[{name}]"
                raise InvalidInput("is set by gitsync", location=where, object=object, hint="remove it")
    check_spec(ApplicationSpec, template.spec, "spec.template.spec", object=object, is_open=has_parameters)
