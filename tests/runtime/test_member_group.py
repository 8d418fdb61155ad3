"""The processes of one machine divide keys between them, and other controllers see all of them."""

from __future__ import annotations

from gitsync.runtime.member_group import GroupLeases, holder_in
from gitsync.runtime.membership import MemberLease, MemberSet, Membership

KEYS = [f"gitsync/app-{number}" for number in range(60)]


class Leases:
    """Leases in memory."""

    def __init__(self) -> None:
        self.held: dict[str, MemberLease] = {}

    def all(self) -> tuple[MemberLease, ...]:
        return tuple(self.held.values())

    def put(self, seen: MemberLease | None, holder: str, view: MemberSet, seconds: float) -> MemberLease:
        self.held[holder] = MemberLease(holder, str(int(seen.renewal) + 1 if seen else 1), view)
        return self.held[holder]

    def remove(self, seen: MemberLease) -> None:
        del self.held[seen.holder]


def joined(leases: Leases, group: str, process: str) -> Membership:
    return Membership(GroupLeases(leases, group, is_inside=True), holder_in(group, process))


def test_a_group_divides_all_keys_whatever_other_leases_exist() -> None:
    leases = Leases()
    leases.put(None, "host_a", (), 15)  # the exclusive lease of the group
    leases.put(None, holder_in("host_b", "1"), (holder_in("host_b", "1"),), 15)
    members = [joined(leases, "host_a", process) for process in ("1", "2")]
    for _ in range(4):
        for member in members:
            member.step()
    shares = [sum(member.owns(key) for key in KEYS) for member in members]
    assert sum(shares) == len(KEYS)
    assert min(shares) > 0


def test_the_leases_of_a_group_and_all_others_are_complementary() -> None:
    leases = Leases()
    for holder in ("host_a", "host_ab", holder_in("host_a", "1"), holder_in("host_ab", "1")):
        leases.put(None, holder, (), 15)
    inside, outside = (
        {lease.holder for lease in GroupLeases(leases, "host_a", is_inside=is_inside).all()}
        for is_inside in (True, False)
    )
    assert inside == {holder_in("host_a", "1")}
    assert inside | outside == set(leases.held)
    assert not inside & outside
