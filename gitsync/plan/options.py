"""The options of one object from its annotations: ours, and those of Argo CD and Flux with the same meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from gitsync.errors import InvalidInput
from gitsync.objects import keys
from gitsync.objects.manifest import Manifest, annotations_of
from gitsync.objects.options import DEFAULT, Deletion, HookDelete, HookPhase, Options, Reconcile
from gitsync.objects.ref import ref_of

ARGO_WAVE = "argocd.argoproj.io/sync-wave"
ARGO_HOOK = "argocd.argoproj.io/hook"
ARGO_HOOK_DELETE_POLICY = "argocd.argoproj.io/hook-delete-policy"
ARGO_SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
HELM_HOOK = "helm.sh/hook"
HELM_HOOK_WEIGHT = "helm.sh/hook-weight"
HELM_HOOK_DELETE_POLICY = "helm.sh/hook-delete-policy"
HELM_RESOURCE_POLICY = "helm.sh/resource-policy"
FLUX_PRUNE = "kustomize.toolkit.fluxcd.io/prune"
FLUX_RECONCILE = "kustomize.toolkit.fluxcd.io/reconcile"
FLUX_FORCE = "kustomize.toolkit.fluxcd.io/force"
FLUX_SSA = "kustomize.toolkit.fluxcd.io/ssa"

_OPTION_KEYS = frozenset(
    {
        keys.SYNC_WAVE,
        keys.HOOK,
        keys.HOOK_DELETE_POLICY,
        keys.PRUNE,
        keys.RECONCILE,
        keys.FORCE,
        keys.IGNORE_DIFFERENCES,
        ARGO_WAVE,
        ARGO_HOOK,
        ARGO_HOOK_DELETE_POLICY,
        ARGO_SYNC_OPTIONS,
        HELM_HOOK,
        HELM_HOOK_WEIGHT,
        HELM_HOOK_DELETE_POLICY,
        HELM_RESOURCE_POLICY,
        FLUX_PRUNE,
        FLUX_RECONCILE,
        FLUX_FORCE,
        FLUX_SSA,
    }
)


_T = TypeVar("_T")
# Bounded, since int() raises for a text of thousands of digits: one bad annotation fails its object alone.
_WAVE = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_BOOLEAN = {"true": True, "enabled": True, "false": False, "disabled": False}
_DELETION = {
    "true": Deletion.ALLOWED,
    "enabled": Deletion.ALLOWED,
    "confirm": Deletion.CONFIRM,
    "false": Deletion.KEEP,
    "disabled": Deletion.KEEP,
}
_RECONCILE = {
    "true": Reconcile.ALWAYS,
    "enabled": Reconcile.ALWAYS,
    "once": Reconcile.ONCE,
    "false": Reconcile.NEVER,
    "disabled": Reconcile.NEVER,
}
_SSA = {
    "override": Reconcile.ALWAYS,
    "merge": Reconcile.ALWAYS,
    "ifnotpresent": Reconcile.ONCE,
    "ignore": Reconcile.NEVER,
}
_HOOKS = {phase.value: phase for phase in HookPhase}
_HOOK_DELETE = {policy.value: policy for policy in HookDelete}
_SKIP = "Skip"
"""The hook type of Argo CD that disables an object: it is left alone."""
_HELM_HOOKS = {
    "pre-install": HookPhase.PRE_SYNC,
    "pre-upgrade": HookPhase.PRE_SYNC,
    "post-install": HookPhase.POST_SYNC,
    "post-upgrade": HookPhase.POST_SYNC,
    "pre-delete": HookPhase.PRE_DELETE,
    "post-delete": HookPhase.POST_DELETE,
}
_HELM_NO_HOOK = "crd-install"
"""Helm 2 marked CRDs with it; they are applied as any other object."""
_HELM_HOOK_DELETE = {
    "hook-succeeded": HookDelete.SUCCEEDED,
    "hook-failed": HookDelete.FAILED,
    "before-hook-creation": HookDelete.BEFORE_CREATION,
}


def options_of(manifest: Manifest) -> Options:
    """
    Return the options of an object; the project's own annotation wins over a synonym.

    Raise InvalidInput naming the object, the annotation and its value when a value is not valid.
    """
    annotations = annotations_of(manifest)
    if not annotations or _OPTION_KEYS.isdisjoint(annotations):
        return DEFAULT
    return _Reader(annotations, str(ref_of(manifest))).options()


def is_left_alone(manifest: Manifest) -> bool:
    """Return whether a sync never writes an object, such as the test of a chart; a bad option is for it to report."""
    try:
        return options_of(manifest).reconcile is Reconcile.NEVER
    except InvalidInput:
        return False


class _Reader:
    """Read the annotations of one object; errors name the object."""

    def __init__(self, annotations: Mapping[str, str], subject: str) -> None:
        self.annotations = annotations
        self.subject = subject

    def options(self) -> Options:
        argo = self._argo_options()
        reconcile = (
            self._choice(keys.RECONCILE, _RECONCILE)
            or self._choice(FLUX_RECONCILE, _RECONCILE)
            or self._choice(FLUX_SSA, _SSA)
        )
        hooks, is_left_out = self._hooks()
        if reconcile is None and is_left_out:
            reconcile = Reconcile.NEVER
        force = self._choice(keys.FORCE, _BOOLEAN)
        # not ``or``: false is a value that wins over the synonym
        if force is None:
            force = self._choice(FLUX_FORCE, _BOOLEAN)
        return Options(
            wave=self._wave(),
            hooks=hooks,
            hook_delete=self._names(keys.HOOK_DELETE_POLICY, _HOOK_DELETE)
            or self._names(ARGO_HOOK_DELETE_POLICY, _HOOK_DELETE)
            or self._names(HELM_HOOK_DELETE_POLICY, _HELM_HOOK_DELETE),
            prune=self._choice(keys.PRUNE, _DELETION)
            or self._choice(FLUX_PRUNE, _DELETION)
            or _DELETION[argo.get("prune", "true")],
            delete=_DELETION["false" if self._is_kept_by_helm() else argo.get("delete", "true")],
            reconcile=reconcile or Reconcile.ALWAYS,
            force=argo.get("force") == "true" if force is None else force,
            prune_last=argo.get("prunelast") == "true",
            ignore=tuple(self.annotations.get(keys.IGNORE_DIFFERENCES, "").replace(",", " ").split()),
        )

    def _refuse(self, key: str, expected: str) -> InvalidInput:
        return InvalidInput(
            f"annotation {key}: {self.annotations[key]!r} is invalid",
            object=self.subject,
            hint=f"write {expected}",
        )

    def _wave(self) -> int:
        key = next((key for key in (keys.SYNC_WAVE, ARGO_WAVE, HELM_HOOK_WEIGHT) if key in self.annotations), None)
        if key is None:
            return 0
        text = self.annotations[key]
        if not isinstance(text, str) or _WAVE.fullmatch(text) is None:
            raise self._refuse(key, 'an integer in quotes, such as "-1"')
        return int(text)

    def _choice(self, key: str, meanings: Mapping[str, _T]) -> _T | None:
        text = self.annotations.get(key)
        if text is None:
            return None
        meaning = meanings.get(str(text).lower())
        if meaning is None:
            raise self._refuse(key, " or ".join(meanings))
        return meaning

    def _hooks(self) -> tuple[tuple[HookPhase, ...], bool]:
        """Return the phases of a hook, and whether the object is skipped because all its phases are unknown."""
        if keys.HOOK in self.annotations:
            return self._names(keys.HOOK, _HOOKS), False
        if self.annotations.get(ARGO_HOOK) == _SKIP:
            return (), True
        if ARGO_HOOK in self.annotations:
            return self._names(ARGO_HOOK, _HOOKS), False
        names = set(self._words(HELM_HOOK)) - {_HELM_NO_HOOK}
        # Helm runs ``test`` and ``rollback`` hooks by commands of its own, which have no counterpart in a sync.
        phases = {_HELM_HOOKS[name] for name in names if name in _HELM_HOOKS}
        return tuple(phase for phase in HookPhase if phase in phases), bool(names) and not phases

    def _is_kept_by_helm(self) -> bool:
        return self.annotations.get(HELM_RESOURCE_POLICY) == "keep"

    def _names(self, key: str, meanings: Mapping[str, _T]) -> tuple[_T, ...]:
        if key not in self.annotations:
            return ()
        names = self._words(key)
        # A misspelt phase must not make an object run as none, or as an ordinary one.
        if not names or any(name not in meanings for name in names):
            raise self._refuse(key, ", ".join(meanings))
        return tuple(meanings[name] for name in names)

    def _words(self, key: str) -> list[str]:
        return str(self.annotations.get(key, "")).replace(",", " ").split()

    def _argo_options(self) -> dict[str, str]:
        pairs = (item.partition("=") for item in str(self.annotations.get(ARGO_SYNC_OPTIONS, "")).split(","))
        options = {name.strip().lower(): value.strip().lower() for name, _, value in pairs if name.strip()}
        # Only these decide on deletes; other options of Argo CD have no meaning here and are ignored.
        for name in ("prune", "delete"):
            if options.get(name, "true") not in _DELETION:
                raise self._refuse(ARGO_SYNC_OPTIONS, f"{name.capitalize()}=true, false or confirm")
        return options
