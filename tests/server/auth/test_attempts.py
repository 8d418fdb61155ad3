from __future__ import annotations

from gitsync.server.auth.access import Attempts


def test_the_delay_grows_to_a_minute_and_ends() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    delays = []
    for _ in range(14):
        attempts.fail("192.0.2.1")
        delays.append(attempts.wait("192.0.2.1"))
    assert delays == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert attempts.wait("192.0.2.2") == 0
    now[0] = 60.0
    assert attempts.wait("192.0.2.1") == 0
    now[0] = 2000.0
    attempts.fail("192.0.2.1")
    assert attempts.wait("192.0.2.1") == 0


def test_the_number_of_addresses_is_bounded() -> None:
    attempts = Attempts(lambda: 0.0)
    for number in range(10_020):
        attempts.fail(str(number))
    assert len(attempts._failed) == 10_000
