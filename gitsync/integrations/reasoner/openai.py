"""One request to a chat endpoint."""

from __future__ import annotations

from urllib.parse import urlsplit

import orjson

from gitsync.integrations.http import RequestFailed, request
from gitsync.objects.application import OpenAI

_MOST = 256 << 10
_ANSWER_TOKENS = 700


def complete(target: OpenAI, key: str, system: str, user: str) -> bytes:
    """Return the body of a chat completion; raise RequestFailed, whose text holds nothing of key or answer."""
    parts = urlsplit(target.endpoint)
    url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/chat/completions"
    sent = _body(target.model, system, user)
    status, body = request("POST", url, _headers(key), sent, timeout=target.timeout, max_bytes=_MOST)
    if status != 200:
        raise RequestFailed(f"answered {status}", retryable=status == 429 or status >= 500)
    return body


def _headers(key: str) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return headers | {"Authorization": f"Bearer {key}"} if key else headers


def _body(model: str, system: str, user: str) -> bytes:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return orjson.dumps(
        {
            "model": model,
            "messages": messages,
            "temperature": 0,
            "max_tokens": _ANSWER_TOKENS,
            "response_format": {"type": "json_object"},
        }
    )
