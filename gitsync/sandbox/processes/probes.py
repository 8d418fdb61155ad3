"""Probes and hooks of containers that run: HTTP, TCP and commands."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.processes.volumes import Mount, translate

_FIRST_PERIOD = 0.25
"""Seconds between the probes of a container that has never passed: a sandbox does not wait for a whole period."""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """What a probe asks: the address and ports of a container, and how its commands run."""

    address: str
    ports: Mapping[str, int]
    env: Mapping[str, str]
    mounts: list[Mount]
    folder: Path

    def port(self, declared: int | str) -> int:
        """Return the number of a port, which may be a name."""
        return int(self.ports.get(str(declared), declared))


async def repeat(probe: Manifest, target: ProbeTarget, report: Callable[[bool], None]) -> None:
    """Probe for ever, and report each change of the result, by the thresholds of the probe."""
    await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
    now = asyncio.get_running_loop().time
    period = probe["periodSeconds"]
    failed_since = now()
    passed = 0
    reported = None
    while True:
        if await passes(probe, target, probe["timeoutSeconds"]):
            passed = passed + 1
            failed_since = 0.0
            # Below the threshold the last reported result stays.
            result = True if passed >= probe["successThreshold"] else reported
        else:
            passed = 0
            failed_since = failed_since or now()
            # By time, not by number: probes are more frequent until the first success.
            is_failed = now() - failed_since >= (probe["failureThreshold"] - 1) * period
            result = False if is_failed else reported
        if result is not None and result is not reported:
            reported = result
            report(result)
        await asyncio.sleep(period if reported else min(period, _FIRST_PERIOD))


async def passes(action: Manifest, target: ProbeTarget, seconds: float) -> bool:
    """Perform the action of a probe or hook once, and return whether it succeeded in time."""
    try:
        async with asyncio.timeout(seconds):
            return await _perform(action, target, seconds)
    except (OSError, TimeoutError, ValueError):
        return False


async def _perform(action: Manifest, target: ProbeTarget, seconds: float) -> bool:
    if "httpGet" in action:
        return await _get(action["httpGet"], target)
    if "exec" in action:
        return await asyncio.to_thread(_run, action["exec"]["command"], target, seconds)
    if "sleep" in action:
        await asyncio.sleep(action["sleep"]["seconds"])
        return True
    asked = action.get("tcpSocket") or action.get("grpc") or {}
    _, writer = await asyncio.open_connection(asked.get("host") or target.address, target.port(asked["port"]))
    writer.close()
    return True


async def _get(asked: Manifest, target: ProbeTarget) -> bool:
    """Send a GET request and return whether its status is below 400."""
    host = asked.get("host") or target.address
    port = target.port(asked["port"])
    headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/1.36", "Connection": "close"}
    headers |= {header["name"]: header["value"] for header in asked.get("httpHeaders") or ()}
    lines = [f"GET {asked.get('path') or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        status = (await reader.readline()).split()[1:2]
    finally:
        writer.close()
    return bool(status) and 200 <= int(status[0]) < 400


def _run(command: list[str], target: ProbeTarget, seconds: float) -> bool:
    translated = [translate(text, target.mounts) for text in command]
    with contextlib.suppress(subprocess.TimeoutExpired):
        ended = subprocess.run(
            translated,
            env=dict(target.env),
            cwd=target.folder,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return ended.returncode == 0
    return False
