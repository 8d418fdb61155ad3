"""Annotations: ours, and those of Argo CD and Flux."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.options import Deletion, HookDelete, HookPhase, Options, Reconcile
from gitsync.plan import options
from gitsync.plan.options import options_of
from tests.plan.factories import config

ROOT = Path(__file__).resolve().parent.parent.parent
ARGO_OPTIONS = "argocd.argoproj.io/sync-options"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, Options()),
        ({"example.com/other": "x"}, Options()),
        ({"gitsync.dev/sync-wave": "-1"}, Options(wave=-1)),
        ({"argocd.argoproj.io/sync-wave": "+2"}, Options(wave=2)),
        ({"gitsync.dev/sync-wave": "1", "argocd.argoproj.io/sync-wave": "2"}, Options(wave=1)),
        ({"gitsync.dev/prune": "false"}, Options(prune=Deletion.KEEP)),
        ({"gitsync.dev/prune": "confirm"}, Options(prune=Deletion.CONFIRM)),
        ({"gitsync.dev/prune": "true", "kustomize.toolkit.fluxcd.io/prune": "disabled"}, Options()),
        ({"kustomize.toolkit.fluxcd.io/prune": "disabled"}, Options(prune=Deletion.KEEP)),
        ({ARGO_OPTIONS: "Prune=false"}, Options(prune=Deletion.KEEP)),
        ({ARGO_OPTIONS: "Prune=confirm,Delete=false"}, Options(prune=Deletion.CONFIRM, delete=Deletion.KEEP)),
        ({ARGO_OPTIONS: "PruneLast=true, Force=true"}, Options(prune_last=True, force=True)),
        ({ARGO_OPTIONS: "ServerSideApply=true"}, Options()),
        ({"gitsync.dev/reconcile": "once"}, Options(reconcile=Reconcile.ONCE)),
        ({"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}, Options(reconcile=Reconcile.NEVER)),
        ({"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}, Options(reconcile=Reconcile.ONCE)),
        ({"kustomize.toolkit.fluxcd.io/ssa": "Ignore"}, Options(reconcile=Reconcile.NEVER)),
        ({"kustomize.toolkit.fluxcd.io/ssa": "Merge"}, Options()),
        ({"kustomize.toolkit.fluxcd.io/force": "enabled"}, Options(force=True)),
        ({"gitsync.dev/force": "false", "kustomize.toolkit.fluxcd.io/force": "enabled"}, Options()),
        ({"gitsync.dev/hook": "PreSync"}, Options(hooks=(HookPhase.PRE_SYNC,))),
        ({"argocd.argoproj.io/hook": "Sync,PostSync"}, Options(hooks=(HookPhase.SYNC, HookPhase.POST_SYNC))),
        ({"argocd.argoproj.io/hook": "Skip"}, Options(reconcile=Reconcile.NEVER)),
        ({"argocd.argoproj.io/hook": "PostDelete"}, Options(hooks=(HookPhase.POST_DELETE,))),
        ({"gitsync.dev/hook": "PreSync,PreDelete"}, Options(hooks=(HookPhase.PRE_SYNC, HookPhase.PRE_DELETE))),
        ({"helm.sh/hook": "pre-install, pre-upgrade"}, Options(hooks=(HookPhase.PRE_SYNC,))),
        (
            {"helm.sh/hook": "post-delete,pre-delete,post-install,test"},
            Options(hooks=(HookPhase.POST_SYNC, HookPhase.PRE_DELETE, HookPhase.POST_DELETE)),
        ),
        ({"helm.sh/hook": "test-success"}, Options(reconcile=Reconcile.NEVER)),
        ({"helm.sh/hook": "pre-rollback"}, Options(reconcile=Reconcile.NEVER)),
        ({"helm.sh/hook": "crd-install"}, Options()),
        ({"helm.sh/hook": "post-delete", "argocd.argoproj.io/hook": "PreSync"}, Options(hooks=(HookPhase.PRE_SYNC,))),
        (
            {"helm.sh/hook": "pre-delete", "helm.sh/hook-weight": "-5", "helm.sh/hook-delete-policy": "hook-succeeded"},
            Options(wave=-5, hooks=(HookPhase.PRE_DELETE,), hook_delete=(HookDelete.SUCCEEDED,)),
        ),
        ({"helm.sh/hook-weight": "-5", "argocd.argoproj.io/sync-wave": "2"}, Options(wave=2)),
        ({"helm.sh/resource-policy": "keep"}, Options(delete=Deletion.KEEP)),
        (
            {"gitsync.dev/hook": "SyncFail", "gitsync.dev/hook-delete-policy": "HookSucceeded,BeforeHookCreation"},
            Options(hooks=(HookPhase.SYNC_FAIL,), hook_delete=(HookDelete.SUCCEEDED, HookDelete.BEFORE_CREATION)),
        ),
        (
            {"gitsync.dev/ignore-differences": "/spec/replicas, /metadata/labels/x"},
            Options(ignore=("/spec/replicas", "/metadata/labels/x")),
        ),
    ],
)
def test_annotations_mean(annotations, expected):
    assert options_of(config(annotations=annotations)) == expected


@pytest.mark.parametrize("value", ["abc", "1.5", "99999999999999999999", "", "-", "0x10", "1\n2", "\uff11"])
def test_a_wave_that_is_no_integer_is_refused_by_name(value):
    with pytest.raises(InvalidInput) as caught:
        options_of(config(annotations={"gitsync.dev/sync-wave": value}))
    assert "ConfigMap settings: annotation gitsync.dev/sync-wave" in str(caught.value)
    assert "integer" in str(caught.value)


@pytest.mark.parametrize(
    "annotations",
    [
        {"gitsync.dev/prune": "maybe"},
        {"gitsync.dev/reconcile": "sometimes"},
        {"gitsync.dev/force": "yes"},
        {"gitsync.dev/hook": "Before"},
        {"gitsync.dev/hook": ""},
        {"gitsync.dev/hook": "Skip"},
        {"gitsync.dev/hook-delete-policy": "Never"},
        {"argocd.argoproj.io/hook": "PreSync,Skip"},
        {"helm.sh/hook-weight": "heavy"},
        {"helm.sh/hook-delete-policy": "HookSucceeded"},
        {ARGO_OPTIONS: "Prune=perhaps"},
    ],
)
def test_a_value_without_a_meaning_is_refused(annotations):
    with pytest.raises(InvalidInput, match=re.escape(next(iter(annotations)))):
        options_of(config(annotations=annotations))


def test_every_annotation_is_documented():
    text = (ROOT / "docs" / "annotations.md").read_text(encoding="utf-8")
    assert [key for key in sorted(options._OPTION_KEYS) if f"`{key}`" not in text] == []
