"""
Ask what an agent depends on for its contract: MCP servers for tools, peers for cards, models for their identity.

A probe runs where the agent runs, with its addresses, headers and keys. It calls no tool.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, Final, TypeVar
from urllib.error import HTTPError
from urllib.parse import urljoin

from gitsync.agents.contract.dependencies import Dependencies, ModelDependency, PeerDependency, ServerDependency
from gitsync.agents.contract.lock import (
    AgentContract,
    ModelContract,
    PeerContract,
    ServerContract,
    ToolContract,
    identity_of,
    locked_card,
    locked_tool,
)
from gitsync.errors import ClusterUnavailable, InvalidInput
from gitsync.integrations.http import open_url

_VERSION: Final = "2025-11-25"
"""The newest version of MCP that begins with ``initialize``; servers answer with one that they know."""
_MOST_BYTES: Final = 4 * 1024 * 1024  # a bound for the memory of the Job
_MOST_TOOLS: Final = 2000
_CARD_PATH: Final = ".well-known/agent-card.json"
_CLIENT: Final = {"name": "gitsync", "version": "1"}
_QUESTION: Final = "Reply with the word ok."
_COMPLETION_TOKENS: Final = 1  # what is asked for is who answers, not an answer
_MODEL_SECONDS: Final = 60.0  # a model that was scaled to zero is loaded first


@dataclass(frozen=True, slots=True)
class ContractObservation:
    """What a probe observed, and the places that did not answer, with the reason: nothing is known of those."""

    contract: AgentContract
    unreachable: Mapping[str, str]


def probe(
    needed: Dependencies, variables: Mapping[str, str], image: str = "", urls: Mapping[str, str] | None = None
) -> ContractObservation:
    """
    Return what an agent depends on, as it is now.

    ``variables`` have the values of headers and keys; ``urls`` are other addresses by which this machine reaches
    servers, by the name of the dependency.
    """
    unreachable: dict[str, str] = {}
    reach = urls or {}

    def observed(dependencies: Iterable[_D], ask: Callable[[_D, str], _C]) -> dict[str, _C]:
        contracts: dict[str, _C] = {}
        for item in dependencies:
            try:
                contracts[item.name] = ask(item, reach.get(item.name, ""))
            except (ClusterUnavailable, InvalidInput) as error:
                unreachable[item.name] = str(error)
        return contracts

    contract = AgentContract(
        image=image,
        servers=observed(needed.servers, lambda server, url: _server_contract(server, url or server.url, variables)),
        peers=observed(needed.peers, lambda peer, url: _peer_contract(peer, url or peer.url, variables)),
        models=observed(needed.models, lambda model, url: _model_contract(model, url or model.endpoint, variables)),
    )
    return ContractObservation(contract, unreachable)


_D = TypeVar("_D", ServerDependency, PeerDependency, ModelDependency)
_C = TypeVar("_C", ServerContract, PeerContract, ModelContract)


def _headers(declared: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return headers with the values of their variables, which the configuration names as ``${NAME}``."""
    values = {}
    for name, value in declared.items():
        variable = value.removeprefix("${").removesuffix("}")
        if variable not in variables:
            raise InvalidInput(f"the variable {variable} with the header {name} is not set")
        values[name] = variables[variable]
    return values


def _server_contract(server: ServerDependency, url: str, variables: Mapping[str, str]) -> ServerContract:
    session = _McpSession(url, _headers(server.headers, variables), server.transport, server.seconds)
    with session:
        hello = session.call("initialize", protocolVersion=_VERSION, capabilities={}, clientInfo=_CLIENT)
        session.initialized(str(hello.get("protocolVersion", "")))
        tools: dict[str, ToolContract] = {}
        for listed in session.tools():
            name, tool = locked_tool(listed)
            tools[name] = tool
    return ServerContract(
        url=server.url,
        name=str((hello.get("serverInfo") or {}).get("name", "")),
        instructions=str(hello.get("instructions") or ""),
        tools=dict(sorted(tools.items())),
    )


class _McpSession:
    """A session with an MCP server, by Streamable HTTP or by the older HTTP with SSE (specification, "Transports")."""

    def __init__(self, url: str, headers: Mapping[str, str], transport: str, seconds: float) -> None:
        self._url = url
        self._headers = {**headers, "Content-Type": "application/json"}
        self._is_sse = transport == "SSE"
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._id = 0
        self._stream: HTTPResponse | None = None
        self._events: Iterator[tuple[str, str]] = iter(())

    def __enter__(self) -> _McpSession:
        if self._is_sse:
            self._stream = self._open(urllib.request.Request(self._url, headers={**self._accepting()}))
            self._events = _events(self._stream, self._deadline)
            # the first event of the stream names where messages are sent
            kind, target = next(self._events, ("", ""))
            if kind != "endpoint":
                raise ClusterUnavailable(f"{self._url} is not an MCP server by SSE: it names no endpoint")
            self._url = urljoin(self._url, target)
        return self

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a request; raise ClusterUnavailable where there is none."""
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": parameters}
        reply = self._reply(message)
        if not isinstance(reply.get("result"), dict):
            raise ClusterUnavailable(f"{self._url} answered {method} with {str(reply.get('error', reply))[:200]}")
        result: dict[str, Any] = reply["result"]
        return result

    def initialized(self, version: str) -> None:
        """Tell the server that the session has begun, in the version that it chose."""
        # servers of 2025-06-18 and later answer 400 without this header
        self._headers["MCP-Protocol-Version"] = version
        self._open(self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})).close()

    def tools(self) -> Iterator[dict[str, Any]]:
        """Yield the tools, of all pages."""
        cursor: dict[str, str] = {}
        count = 0
        while True:
            page = self.call("tools/list", **cursor)
            for tool in page.get("tools") or ():
                count += 1
                # a server may invent a next page for ever
                if count > _MOST_TOOLS or not isinstance(tool, dict):
                    raise ClusterUnavailable(f"{self._url} lists more than {_MOST_TOOLS} tools, or one without members")
                yield tool
            if not page.get("nextCursor"):
                return
            if page["nextCursor"] == cursor.get("cursor"):
                raise ClusterUnavailable(f"{self._url} repeats a page of its tools")
            cursor = {"cursor": str(page["nextCursor"])}

    def _reply(self, message: dict[str, Any]) -> dict[str, Any]:
        with self._open(self._post(message)) as answer:
            session = answer.headers.get("Mcp-Session-Id")
            if session:
                self._headers["Mcp-Session-Id"] = session
            if self._is_sse:
                return self._event_of(self._events)
            if answer.headers.get_content_type() == "text/event-stream":
                return self._event_of(_events(answer, self._deadline))
            return _object(_body(answer), self._url)

    def _event_of(self, events: Iterator[tuple[str, str]]) -> dict[str, Any]:
        """Return the reply to the last request; a server may send notifications before it."""
        for _, data in events:
            message = _object(data.encode(), self._url)
            if message.get("id") == self._id:
                return message
        raise ClusterUnavailable(f"{self._url} ended its answer without a reply")

    def _accepting(self) -> dict[str, str]:
        return {
            **self._headers,
            "Accept": "text/event-stream" if self._is_sse else "application/json, text/event-stream",
        }

    def _post(self, message: dict[str, Any]) -> urllib.request.Request:
        return urllib.request.Request(self._url, json.dumps(message).encode(), self._accepting())

    def _open(self, request: urllib.request.Request) -> HTTPResponse:
        return _opened(request, max(self._deadline - time.monotonic(), 0.1))


def _events(stream: HTTPResponse, deadline: float) -> Iterator[tuple[str, str]]:
    """Yield kind and data of server-sent events (HTML standard, section 9.2)."""
    kind, data, size = "message", [], 0
    while True:
        try:
            line = stream.readline(_MOST_BYTES).decode(errors="replace")
        except (OSError, HTTPException, ValueError) as error:
            raise ClusterUnavailable(f"an answer broke off: {error}") from error
        size += len(line)
        # pings keep a stream open for ever, and reset the timeout of the socket
        if size > _MOST_BYTES or time.monotonic() > deadline:
            raise ClusterUnavailable("an answer did not end in time")
        name, _, value = line.rstrip("\r\n").partition(":")
        if name == "event":
            kind = value.strip()
        elif name == "data":
            data.append(value.removeprefix(" "))
        elif not line.strip() and data:
            yield kind, "\n".join(data)
            kind, data = "message", []
        if not line:
            return


def _peer_contract(peer: PeerDependency, url: str, variables: Mapping[str, str]) -> PeerContract:
    card_url = urljoin(url if url.endswith("/") else f"{url}/", _CARD_PATH)
    card = _get(card_url, _headers(peer.headers, variables), peer.seconds)
    return locked_card(peer.url, card)


def _model_contract(model: ModelDependency, endpoint: str, variables: Mapping[str, str]) -> ModelContract:
    """Return the identity of a model; members stay empty that its server does not have."""
    if not model.endpoint:
        return ModelContract(id=model.id)
    key = variables.get(model.key_variable, "") if model.key_variable else ""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    completion = _optional(lambda: _completion(model.id, endpoint, headers))
    listed = _optional(lambda: _get(f"{endpoint}/models", headers, _MODEL_SECONDS)).get("data")
    entries = [entry for entry in listed or () if isinstance(entry, dict) and entry.get("id") == model.id]
    return ModelContract(
        id=model.id,
        endpoint=model.endpoint,
        entry=identity_of(entries[0]) if entries else {},
        served=str(completion.get("model") or ""),
        fingerprint=str(completion.get("system_fingerprint") or ""),
        reply=tuple(sorted(_members(completion))),
    )


def _completion(id: str, endpoint: str, headers: Mapping[str, str]) -> dict[str, Any]:
    body = {
        "model": id,
        "messages": [{"role": "user", "content": _QUESTION}],
        "temperature": 0,
        "max_tokens": _COMPLETION_TOKENS,
    }
    request = urllib.request.Request(f"{endpoint}/chat/completions", json.dumps(body).encode(), dict(headers))
    with _opened(request, _MODEL_SECONDS) as answer:
        return _object(_body(answer), endpoint)


def _members(completion: Mapping[str, Any]) -> Iterator[str]:
    """Yield the members of a completion; what is null comes and goes."""
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message") if isinstance(choice.get("message"), dict) else {}
    for prefix, members in (("", completion), ("choice.", choice), ("message.", message or {})):
        yield from (f"{prefix}{name}" for name, value in members.items() if value is not None)


def _optional(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return an answer, empty where the server does not have what is asked; raise ClusterUnavailable where it fails."""
    try:
        return ask()
    except ClusterUnavailable as error:
        cause = error.__cause__
        # not served, or not with these parameters; 401, 403 and 429 say nothing about the model
        if isinstance(cause, HTTPError) and cause.code in (400, 404, 405, 422, 501):
            return {}
        raise


def _get(url: str, headers: Mapping[str, str], seconds: float) -> dict[str, Any]:
    request = urllib.request.Request(url, headers={**headers, "Accept": "application/json"})
    with _opened(request, seconds) as answer:
        return _object(_body(answer), url)


def _opened(request: urllib.request.Request, seconds: float) -> HTTPResponse:
    try:
        return open_url(request, seconds)
    except HTTPError as error:
        # the body of an error stays open, and with it the connection
        error.close()
        raise ClusterUnavailable(f"{request.full_url} did not answer: {error}") from error
    # HTTPException, which is not an OSError: the server answers with something else than HTTP
    except (OSError, HTTPException, ValueError) as error:
        raise ClusterUnavailable(f"{request.full_url} did not answer: {error}") from error


def _body(answer: HTTPResponse) -> bytes:
    try:
        return answer.read(_MOST_BYTES)
    except (OSError, HTTPException) as error:
        raise ClusterUnavailable(f"an answer broke off: {error}") from error


def _object(body: bytes, url: str) -> dict[str, Any]:
    try:
        value = json.loads(body)
    # RecursionError: a text of a million brackets
    except (ValueError, RecursionError) as error:
        raise ClusterUnavailable(f"{url} did not answer with JSON") from error
    if not isinstance(value, dict):
        raise ClusterUnavailable(f"{url} did not answer with an object")
    return value
