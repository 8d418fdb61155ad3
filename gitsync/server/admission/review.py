"""Answer an AdmissionReview by the rules that `gitsync build --check` applies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.services.validation import check_own

Answer = dict[str, Any]


def answer(review: Mapping[str, Any]) -> Answer:
    """
    Return the AdmissionReview with the response.

    An object whose spec does not change, or that is deleted, is allowed: a rule that is newer than the object must not
    stop the removal of a finalizer. Source: Kubernetes documentation, "Dynamic Admission Control".
    """
    request = review["request"]
    manifest, old = request.get("object") or {}, request.get("oldObject") or {}
    is_same = bool(old) and old.get("spec") == manifest.get("spec")
    found = {} if is_same or metadata_of(manifest).get("deletionTimestamp") else _refusal(manifest)
    response = {"uid": request["uid"], "allowed": not found, **({"status": found} if found else {})}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _refusal(manifest: Manifest) -> Answer:
    """Return the status that refuses an object, empty for a valid one."""
    try:
        check_own(manifest)
    except InvalidInput as error:
        cause = {"reason": "FieldValueInvalid", "field": error.location, "message": error.message}
        details = {"kind": str(manifest.get("kind")), "causes": [cause]}
        return {"code": 422, "reason": "Invalid", "message": str(error), "details": details}
    return {}
