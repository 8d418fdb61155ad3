"""A program for containers: it leads while it holds the Lease of its Agent, by the Kubernetes client's own election."""

from __future__ import annotations

import os

from kubernetes import config
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

PREFIX = "AGENT_LEASE"


def main() -> None:
    config.load_config()
    lock = LeaseLock(os.environ[PREFIX], os.environ["POD_NAMESPACE"], os.environ["POD_NAME"])
    names = ("DURATION", "RENEW_DEADLINE", "RETRY_PERIOD")
    seconds = [int(os.environ[f"{PREFIX}_{name}_SECONDS"]) for name in names]
    found = electionconfig.Config(lock, *seconds, lambda: print("leads", flush=True), None)
    while True:
        leaderelection.LeaderElection(found).run()


main()
