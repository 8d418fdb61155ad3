"""All policies of the operator."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.gate.cel_rules import ManifestRule
from gitsync.gate.policy import Policy


@dataclass(frozen=True, slots=True)
class PolicySet:
    """
    Policies in the order in which the first that names an Application is its own, and rules for manifests.

    ``prometheus`` is the URL of the server that the operator configured, which policies allow or not.
    """

    policies: tuple[Policy, ...] = ()
    rules: tuple[ManifestRule, ...] = ()
    prometheus: str = ""
