"""Read the operator's Policy files."""

from __future__ import annotations

from pathlib import Path

from gitsync.errors import InvalidInput
from gitsync.gate.cel_rules import ManifestRule, parse_rules
from gitsync.gate.policy import Policy
from gitsync.gate.policy_files import parse_policy
from gitsync.render.yaml.reader import read_all


def read_policies(folder: Path | None) -> tuple[tuple[Policy, ...], tuple[ManifestRule, ...]]:
    """
    Return the operator's policies in a folder, and the rules that manifests must meet.

    Raise InvalidInput when the folder does not exist: without policies nearly everything is allowed.
    """
    if folder is not None and not folder.is_dir():
        raise InvalidInput(f"folder {folder} does not exist", location="policies")
    files = sorted(folder.glob("*.yaml")) if folder is not None else []
    documents = [(document, file.name) for file in files for document in read_all(file.read_bytes(), file.name)]
    policies = (parse_policy(document, name) for document, name in documents)
    rules = (rule for document, name in documents for rule in parse_rules(document, name))
    return tuple(policy for policy in policies if policy is not None), tuple(rules)
