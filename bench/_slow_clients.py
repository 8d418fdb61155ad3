"""
Keep slow connections to an HTTP server: ``python -m bench._slow_clients HOST PORT NUMBER``.

Each sends the start of a request and then a byte every five seconds. One that the server closes is opened again ten
seconds later, from one of 50 loopback addresses. Prints a line when all were opened once; ends with its input.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress

_ADDRESSES = 50
_START = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
_BYTE_EVERY = 5.0
_AGAIN_AFTER = 10.0


async def slow_client(number: int, host: str, port: int, opened: asyncio.Semaphore) -> None:
    """Connect, send slowly, and connect again after the server closed the connection."""
    source = (f"127.0.2.{number % _ADDRESSES + 1}", 0)
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(host, port, local_addr=source)
            opened.release()
            writer.write(_START)
            while not writer.is_closing():
                await asyncio.sleep(_BYTE_EVERY)
                writer.write(b"x")
                await writer.drain()
        await asyncio.sleep(_AGAIN_AFTER)


async def run(host: str, port: int, number: int) -> None:
    """Open all connections over some seconds and keep them."""
    opened, clients = asyncio.Semaphore(0), []
    for index in range(number):
        clients.append(asyncio.create_task(slow_client(index, host, port, opened)))
        if index % 20 == 0:
            await asyncio.sleep(0.01)
    for _ in range(number):
        await opened.acquire()
    print(flush=True)
    await asyncio.gather(*clients)


if __name__ == "__main__":
    threading.Thread(
        target=lambda: asyncio.run(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))), daemon=True
    ).start()
    sys.stdin.read()
