"""Read the operator's Policy files, and follow their changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from gitsync.errors import GitsyncError, InvalidInput
from gitsync.gate.policy import Policy
from gitsync.gate.policy_files import PolicySet, parse_policy, with_controller_rights
from gitsync.gate.validation import parse_rules
from gitsync.objects.manifest import Manifest, at, content_hash
from gitsync.record.configuration_audit import ConfigurationAudit, owner_of
from gitsync.render.yaml.reader import read_all
from gitsync.runtime.clock import Periodic
from gitsync.sync.policies import Policies

Files = dict[str, bytes]
"""The content of Policy files by name."""

_HASH = 16
_VERSION = "..data"
"""The link to the folder of the current version in a mounted ConfigMap (source: Kubernetes, AtomicWriter)."""
_EVERY = 2.0
"""Seconds between two reads of the folder: a ConfigMap that is mounted has no reliable file events."""
_log = logging.getLogger(__name__)


def read_policies(folder: Path | None, prometheus: str = "", *, controller_rights: bool = False) -> PolicySet:
    """
    Return the operator's policies in a folder, and the rules that manifests must meet.

    ``prometheus`` is the URL of the operator's server, which they allow or not. With ``controller_rights``, each policy
    lets Applications without a ServiceAccount write with the controller's own rights; else only those that say so, and
    without any policy none.

    Raise InvalidInput when the folder does not exist, or a file is invalid: without policies nearly everything is
    allowed.
    """
    return _parsed(_files(folder) if folder is not None else {}, prometheus, controller_rights)


def read_files(folder: Path) -> Files:
    """Return the Policy files of a folder; raise InvalidInput when one is not valid."""
    files = _files(folder)
    _parsed(files, "", controller_rights=False)
    return files


def _files(folder: Path) -> Files:
    """Return the files of a folder; those of a mounted ConfigMap, which changes as a whole, are of one version."""
    if not folder.is_dir():
        raise InvalidInput(f"folder {folder} does not exist", location="policies")
    try:
        version = folder / _VERSION
        # the link is resolved once: the kubelet replaces it, and files of two versions must not be mixed
        current = version.resolve() if version.is_dir() else folder
        return {file.name: file.read_bytes() for file in sorted(current.glob("*.yaml"))}
    except OSError as error:
        raise InvalidInput(f"folder {folder} cannot be read: {error.strerror}", location="policies") from error


def _parsed(files: Files, prometheus: str, controller_rights: bool) -> PolicySet:
    documents = [(document, name) for name, text in files.items() for document in read_all(text, name)]
    parsed = (parse_policy(document, name) for document, name in documents)
    written = [policy for policy in parsed if policy is not None]
    policies = written or [Policy(controller_rights=False)]
    if controller_rights:
        policies = list(with_controller_rights(policies))
    rules = (rule for document, name in documents for rule in parse_rules(document, name))
    return PolicySet(tuple(policies), tuple(rules), prometheus, is_default=not written)


def entries_of(files: Files) -> dict[str, str]:
    """Return the names of the policies in valid files, each with a hash of its content."""
    documents = [document for name, text in files.items() for document in read_all(text, name)]
    return {_entry_name(document): content_hash(document)[:_HASH] for document in documents}


def _entry_name(document: Manifest) -> str:
    name = str(at(document, "metadata", "name"))
    # a tenant may have the name of a policy
    return f"tenant {name}" if document.get("kind") == "Tenant" else name


class PolicyReloader(Periodic):
    """
    Use the policies of a folder as soon as its files change; then ``on_change`` reconciles all Applications.

    The last valid policies stay in use while the files are invalid or gone, which is logged and shown. Each change
    is audited, also one that was made while the controller was stopped.
    """

    def __init__(
        self,
        folder: Path,
        policies: Policies,
        audit: ConfigurationAudit,
        on_change: Callable[[], None],
        *,
        controller_rights: bool = False,
    ) -> None:
        super().__init__("policies", self.reload, _EVERY)
        self._folder = folder
        self._policies = policies
        self._audit = audit
        self._on_change = on_change
        self._controller_rights = controller_rights
        self._unrecorded: Files | None = None
        self._read: Files | str | None = None

    def reload(self) -> None:
        """Use the files where they differ from those read before, and record that they changed."""
        self._load()
        # recorded again at the next check while the database fails
        if self._unrecorded is not None and self._audit.record(entries_of(self._unrecorded), owner_of(self._folder)):
            self._unrecorded = None

    def _load(self) -> None:
        try:
            content: Files | str = _files(self._folder)
        except InvalidInput as error:
            # an error is content too: it is logged once, not at every check
            content = str(error)
        if content == self._read:
            return
        is_first = self._read is None
        # also for invalid files: they are parsed once
        self._read = content
        try:
            prometheus = self._policies.current.prometheus
            current = _parsed(content, prometheus, self._controller_rights) if isinstance(content, dict) else None
            problem = content if isinstance(content, str) else ""
        except GitsyncError as error:
            current = None
            problem = str(error)
        self._policies.problem = problem
        if isinstance(content, dict) and current is not None:
            self._unrecorded = content
        if problem:
            _log.error("the policies are not used, the earlier ones stay in use: %s", problem)
        # another comment or order of members reconciles nothing
        elif current is not None and current != self._policies.current:
            self._policies.current = current
            _log.info("%d policies and %d rules are in use", len(current.policies), len(current.rules))
            self._on_change()
        elif not is_first:
            _log.info("the policies are valid again")
