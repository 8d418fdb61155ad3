"""A lease of the cluster elects one leader over HTTP."""

from __future__ import annotations

import pytest

from gitsync.cluster.client import Client
from gitsync.cluster.lease import ClusterLease
from gitsync.errors import Conflict
from gitsync.runtime.leader import Leader


def test_a_lease_is_taken_renewed_and_released(client: Client) -> None:
    lease = ClusterLease(client, "default", "gitsync")
    assert lease.read() is None
    first = lease.take(None, "one", 15)
    assert lease.read() == first
    second = lease.take(first, "one", 15)
    assert second.renewal != first.renewal
    with pytest.raises(Conflict):
        lease.take(first, "two", 15)
    lease.release(second)
    released = lease.read()
    assert released is not None
    assert released.holder == ""


def test_two_candidates_and_one_leader(client: Client) -> None:
    leaders = [Leader(ClusterLease(client, "default", "gitsync"), name) for name in ("one", "two")]
    for _ in range(3):
        for leader in leaders:
            leader.step()
        assert [leader.is_leading for leader in leaders] == [True, False]
    leaders[0].stop()
    leaders[1].step()
    assert leaders[1].is_leading
