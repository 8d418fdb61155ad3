"""Leases of the cluster, over HTTP: members find each other, and a lost lease is noticed."""

from __future__ import annotations

import pytest

from gitsync.cluster.client import Client
from gitsync.cluster.lease import FencedCluster, LeaseMemberStore
from gitsync.errors import Conflict
from gitsync.objects.ref import ObjectRef
from gitsync.runtime.membership import Membership, SingleReplica
from tests.cluster.factories import config_map

KEYS = [f"gitsync/app-{number}" for number in range(40)]


@pytest.fixture
def leases(client: Client) -> LeaseMemberStore:
    return LeaseMemberStore(client, "default")


def test_a_lease_is_written_renewed_and_removed(leases: LeaseMemberStore) -> None:
    assert leases.all() == ()
    first = leases.put(None, "one", (), 15)
    second = leases.put(first, "one", ("one", "two"), 15)
    assert leases.all() == (second,)
    assert (second.holder, second.published_members) == ("one", ("one", "two"))
    assert second.renewal != first.renewal
    with pytest.raises(Conflict):
        leases.put(first, "one", (), 15)
    with pytest.raises(Conflict):
        leases.put(None, "one", (), 15)
    leases.remove(first)
    assert leases.all() == (second,), "it was renewed meanwhile"
    leases.remove(second)
    leases.remove(second)
    assert leases.all() == ()
    with pytest.raises(Conflict):
        leases.put(second, "one", (), 15)


def test_a_foreign_lease_is_nobodys_member(client: Client, leases: LeaseMemberStore) -> None:
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "other"}, "spec": {}}
    client.send("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", body)
    assert leases.all() == ()


def test_two_members_divide_the_keys(leases: LeaseMemberStore) -> None:
    members = [Membership(leases, name) for name in ("one", "two")]
    for _ in range(4):
        for member in members:
            member.step()
    assert [sum(member.owns(key) for member in members) for key in KEYS] == [1] * len(KEYS)
    members[0].stop()
    for _ in range(2):
        members[1].step()
    assert all(members[1].owns(key) for key in KEYS)


def test_a_replica_that_may_not_write_reads_and_tries_but_changes_nothing(client: Client) -> None:
    class Away(SingleReplica):
        @property
        def may_write(self) -> bool:
            return False

    applied = FencedCluster(client, SingleReplica()).apply(config_map(x="1"), manager="m")
    away, ref = FencedCluster(client, Away()), ObjectRef("", "ConfigMap", "default", "a")
    assert away.apply(config_map(x="2"), manager="m", dry_run=True)["data"] == {"x": "2"}
    for write in (
        lambda: away.apply(config_map(x="2"), manager="m"),
        lambda: away.delete(ref, "v1", uid=applied["metadata"]["uid"]),
        lambda: away.replace({**applied, "data": {"x": "2"}}, manager="m"),
    ):
        with pytest.raises(Conflict, match="could not renew its Lease"):
            write()
    found = away.read(ref, "v1")
    assert found is not None
    assert found["data"] == {"x": "1"}
