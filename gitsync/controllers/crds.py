"""Install the custom resource definitions that the controllers work on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from gitsync.crds import (
    Standing,
    definitions,
    is_current,
    lost_fields,
    standing_of,
    version_of_definition,
)
from gitsync.errors import ClusterUnavailable, Rejected
from gitsync.kube.kinds import defined_kind
from gitsync.objects.keys import FIELD_MANAGER, VERSION
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import GroupKind, ref_of
from gitsync.ports import Cluster

INSTALL_HINT = (
    "an administrator installs it with `gitsync install --crds | kubectl apply --server-side -f -`; or let the"
    " controller create, get and patch customresourcedefinitions"
)
_SERVED_TIMEOUT = 30.0  # seconds; a definition is served some moments after it is established
_log = logging.getLogger(__name__)


class CrdInstaller:
    """Ensure that the cluster serves our kinds before they are watched."""

    def __init__(self, cluster: Cluster, *, install: bool, sleep: Callable[[float], None] = time.sleep) -> None:
        self._cluster = cluster
        self._install = install
        self._sleep = sleep

    def start(self) -> None:
        """
        Apply the definitions where configured and permitted, and wait until they are served.

        Without permission to write them, existing ones are used; raise Rejected when there are none.
        """
        # without the configuration nothing is written, and the definitions have to be there
        for definition in definitions() if self._install else ():
            self._apply(definition)
        give_up = time.monotonic() + _SERVED_TIMEOUT
        # one deadline for all of them, since the API server works on them together
        for of in map(defined_kind, definitions()):
            self._wait(of, give_up)

    # deleting a definition deletes all of its objects
    def stop(self) -> None:
        """Leave the definitions in place."""

    def _apply(self, definition: Manifest) -> None:
        live = self._installed(definition)
        standing = standing_of(live, definition) if live is not None else Standing.OLDER
        if standing is Standing.CURRENT:
            return  # a write would only take the ownership of its fields from the tool that installed it
        if live is not None and standing is Standing.NEWER:
            # an older controller must not overwrite the schema of a newer one: fields would be dropped
            self._keep(live, definition)
            return
        try:
            self._cluster.apply(definition, manager=FIELD_MANAGER)
        except Rejected as error:
            if error.code != 403:
                raise
            of = defined_kind(definition)
            if not self._is_served(of):  # waiting grants no right
                message = error.message
                ref = error.object
                raise Rejected(message, object=ref, hint=INSTALL_HINT, code=403, refusal=error.refusal) from error
            if not self._is_current(definition):
                about = {"kind": of.kind, "reason": error.message, "hint": INSTALL_HINT}
                is_read = self._installed(definition) is not None
                what = "is of another version and may not be updated" if is_read else "may not be read or updated"
                _log.warning(f"the installed definition {what}", extra=about)

    def _wait(self, of: GroupKind, give_up: float) -> None:
        while not self._is_served(of):
            if time.monotonic() > give_up:
                raise ClusterUnavailable(f"the cluster does not serve {of.kind}", hint=INSTALL_HINT)
            self._sleep(0.05)
            # discovery is cached, and the cached answer would never change
            self._cluster.definitions_changed()

    def _is_served(self, of: GroupKind) -> bool:
        return self._cluster.resource(of.group, VERSION, of.kind) is not None

    def _is_current(self, definition: Manifest) -> bool:
        """Return whether the installed definition is of this version; one that may not be read counts as another."""
        live = self._installed(definition)
        return live is not None and is_current(live, definition)

    def _installed(self, definition: Manifest) -> Manifest | None:
        """Return the installed definition, None where there is none or it may not be read."""
        try:
            return self._cluster.read(ref_of(definition), "v1")
        # lost: the version of the definition; without the right to read it, it counts as absent
        except Rejected:
            return None

    def _keep(self, live: Manifest, definition: Manifest) -> None:
        """
        Report a newer definition, which stays.

        With an older one in its place the API server would drop the fields that only the newer one has, and what they
        protect would be lost later.
        """
        about = {
            "kind": defined_kind(definition).kind,
            "installed": version_of_definition(live) or "another build",
            "version": version_of_definition(definition),
            "fields": ", ".join(lost_fields(live, definition)[:5]),
            "hint": "run the newer version; this one neither knows nor changes these fields",
        }
        _log.warning("the installed definition is newer and stays", extra=about)
