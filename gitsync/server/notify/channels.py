"""Channels of notices: Apprise, which reaches chats and mail, and Events on the Application."""

from __future__ import annotations

from typing import Any

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
        # no URL is in a message: it may have a password
        refused = [number for number, url in enumerate(self._rule.targets(), 1) if not sender.add(url)]
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
            raise InvalidInput(
                f"URL {', '.join(map(str, refused))} of a notification rule is not one that Apprise knows",
                hint="see https://github.com/caronc/apprise for the form of each service",
            )


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
