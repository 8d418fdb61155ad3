"""Channels of notices: Apprise, which reaches chats and mail, and Events on the Application."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from gitsync.errors import InvalidInput, TransientError
from gitsync.objects.ref import ObjectRef
from gitsync.ports import EventWriter
from gitsync.server.notify.notices import Notice
from gitsync.server.notify.rules import NotificationRule


class AppriseChannel:
    """Send the notices of one rule through Apprise; raise InvalidInput where the optional extra is not installed."""

    def __init__(self, rule: NotificationRule, dashboard: str = "") -> None:
        try:
            import apprise
        except ImportError as error:
            raise InvalidInput(
                "notifications need the package apprise", hint="install it: pip install 'gitsync[notify]'"
            ) from error
        self._apprise: Any = apprise
        self._rule = rule
        self._dashboard = dashboard.rstrip("/")
        self.interval = rule.interval
        self.settle = rule.settle
        self.groups = True

    def wants(self, notice: Notice) -> bool:
        """Tell whether the rule is about a notice."""
        return self._rule.wants(notice)

    def send(self, notice: Notice) -> None:
        """Send a notice to every URL of the rule."""
        # for each message: the file of URLs may have changed
        sender = self._apprise.Apprise()
        refused = self._add_targets(sender)
        page = "" if notice.members else f"/{notice.application}"
        link = f"\n{self._dashboard}/apps{page}" if self._dashboard else ""
        bad = notice.kind in ("failed", "degraded")
        good = notice.kind in ("synced", "recovered")
        kind = self._apprise.NotifyType
        if not sender.notify(
            title=notice.title,
            body=(notice.text or notice.title) + link,
            # names and messages come from others: services that show markup get it escaped
            body_format=self._apprise.NotifyFormat.TEXT,
            notify_type=kind.FAILURE if bad else kind.SUCCESS if good else kind.WARNING,
        ):
            raise TransientError("at least one URL of notifications did not take the message")
        if refused:
            raise InvalidInput(f"{refused} that Apprise knows", hint=_FORMS)

    def check(self) -> None:
        """
        Check the URLs without sending: their form, and that the server of each takes a connection.

        Raise InvalidInput for what can never be sent, TransientError where no server answers from this machine.
        """
        sender = self._apprise.Apprise()
        if refused := self._add_targets(sender):
            raise InvalidInput(f"{refused} that Apprise knows", hint=_FORMS)
        if not len(sender):
            raise InvalidInput("the rule has no URL", hint="add urls or a urlFile with one a line")
        for number, target in enumerate(sender, 1):
            server = _server_of(target)
            if server is None:
                continue
            try:
                socket.create_connection(server, timeout=_PATIENCE).close()
            except OSError as error:
                host, port = server
                where = f"{host}:{port} of URL {number} ({target.service_name})"
                raise TransientError(f"{where} cannot be reached from here: {error.strerror or error}") from error

    def _add_targets(self, sender: Any) -> str:
        """Give the URLs of the rule to a sender; return which it did not take, as text, without the URLs themselves."""
        # by its number: a URL may have a password
        refused = [str(number) for number, url in enumerate(self._rule.targets(), 1) if not sender.add(url)]
        return f"URL {', '.join(refused)} of a notification rule is not one" if refused else ""


_FORMS = "see https://github.com/caronc/apprise for the form of each service"
_PATIENCE = 3.0
"""Seconds in which a server has to take a connection."""


def _server_of(target: Any) -> tuple[str, int] | None:
    """Return host and port that a service of Apprise connects to; None where only it knows, or a proxy connects."""
    if mail := getattr(target, "smtp_host", ""):
        return mail, target.port or 25
    if "https" in getproxies():
        return None
    # services with one address for all have it in these members, and what looks like a host is a part of their key
    fixed = next((url for name in ("notify_url", "api_url") if (url := getattr(target, name, None))), "")
    if host := urlsplit(fixed).hostname:
        return host, 443
    if any("{host}" in template for template in target.templates):
        return target.host, target.port or (443 if target.secure else 80)
    return None


_WARNINGS = frozenset({"failed", "degraded", "drifted", "approval", "drift", "heal-failed", "tag-moved", "budget"})
"""The kinds of notices that a user should react to."""


class EventChannel:
    """Write every notice as a Kubernetes Event on its Application, and on the object that it is about."""

    interval = 1.0
    settle = 0.0
    groups = False
    """Each Event belongs to one Application."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events

    def wants(self, notice: Notice) -> bool:
        """Take every notice."""
        return True

    def send(self, notice: Notice) -> None:
        """Write the Event."""
        kind = "Warning" if notice.kind in _WARNINGS else "Normal"
        self._events.write_event(notice.application, kind, notice.state, notice.text or notice.title)
        if notice.ref:
            ref = ObjectRef.from_path(notice.ref)
            self._events.write_event(notice.application, kind, notice.state, notice.text, ref)
