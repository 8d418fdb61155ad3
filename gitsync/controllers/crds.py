"""Install the custom resource definitions that the controller works on."""

from __future__ import annotations

import time
from collections.abc import Callable

from gitsync.crds import application_crd
from gitsync.errors import ClusterUnavailable, Rejected
from gitsync.objects.keys import FIELD_MANAGER, GROUP, VERSION
from gitsync.ports import Cluster

_SERVED_TIMEOUT = 30.0


class CrdInstaller:
    """Ensure that the cluster serves Application before it is watched."""

    def __init__(self, cluster: Cluster, *, install: bool, sleep: Callable[[float], None] = time.sleep) -> None:
        self._cluster = cluster
        self._install = install
        self._sleep = sleep

    def start(self) -> None:
        """
        Apply the definitions where configured and permitted, and wait until they are served.

        Without permission to write them, existing ones are used.
        """
        if self._install:
            try:
                self._cluster.apply(application_crd(), manager=FIELD_MANAGER)
            except Rejected as error:
                if error.code != 403:
                    raise
        give_up = time.monotonic() + _SERVED_TIMEOUT
        while self._cluster.resource(GROUP, VERSION, "Application") is None:
            if time.monotonic() > give_up:
                raise ClusterUnavailable("the cluster does not serve Application", hint="install the CRDs of gitsync")
            self._sleep(0.05)
            self._cluster.definitions_changed()

    def stop(self) -> None:
        """Leave the definitions in place."""
