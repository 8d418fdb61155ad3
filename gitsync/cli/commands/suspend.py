"""``gitsync suspend`` and ``resume`` of an Application, ``hold`` and ``unhold`` of a field: what is not synced."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from gitsync.cli.applications import connect, one_application
from gitsync.cli.options import NAMESPACE, ApplicationTarget, RequestOrigin, command
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import read_view, user_name, user_requests, view_of
from gitsync.errors import InvalidInput
from gitsync.objects.holds import FieldHold, active_holds, field_key, holds_of
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest
from gitsync.objects.parsing import Duration
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.runtime.clock import SystemClock
from gitsync.services.requests import RequestKind

_DURATION: TypeAdapter[float] = TypeAdapter(Duration)


@command
def suspend(
    target: ApplicationTarget,
    origin: RequestOrigin,
) -> Exit:
    """Stop syncing an Application; its objects stay."""
    client = connect(target.cluster)
    requests, _ = user_requests(client, target.data)
    requests.request(read_view(client, target), RequestKind.SUSPEND, User(user_name(origin.by, "--by")), origin.reason)
    say(f"{target.key} suspended: nothing is written until: gitsync resume {target.name} --reason …")
    return Exit.OK


@command
def resume(
    target: ApplicationTarget,
    origin: RequestOrigin,
) -> Exit:
    """Resume syncing a suspended Application."""
    client = connect(target.cluster)
    requests, _ = user_requests(client, target.data)
    requests.request(read_view(client, target), RequestKind.RESUME, User(user_name(origin.by, "--by")), origin.reason)
    say(f"{target.key} resumed")
    return Exit.OK


@command
def hold(
    target: ApplicationTarget,
    origin: RequestOrigin,
    object: Annotated[str, typer.Argument(metavar="KIND/NAME", help="The object, such as Deployment/web.")],
    field: Annotated[str, typer.Argument(metavar="FIELD", help="The field, such as spec.replicas.")],
    period: Annotated[str, typer.Option("--for", help="How long, such as 30m; 24h at most.")] = "1h",
) -> Exit:
    """Keep a field of an object as it is during an incident, whatever Git declares; it ends by itself."""
    client = connect(target.cluster)
    manifest = one_application(client, target.namespace, target.name)
    ref = _object_named(manifest, object)
    by = user_name(origin.by, "--by")
    until = SystemClock().now().replace(microsecond=0) + timedelta(seconds=_seconds(period))
    kept = FieldHold.of_field(ref, field, until, by, origin.reason)
    requests, writer = user_requests(client, target.data)
    requests.hold(view_of(manifest), writer, kept, User(by))
    option = f" -n {target.namespace}" if target.namespace != NAMESPACE else ""
    say(f"{kept.text} is left as it is until {until:%Y-%m-%d %H:%M:%S} UTC; then Git counts again")
    say(f"edit it now; earlier: gitsync unhold {target.name}{option} {object} {field}")
    return Exit.OK


@command
def unhold(
    target: ApplicationTarget,
    origin: RequestOrigin,
    object: Annotated[str, typer.Argument(metavar="[KIND/NAME]", help="Only holds of this object.")] = "",
    field: Annotated[str, typer.Argument(metavar="[FIELD]", help="Only the hold of this field.")] = "",
) -> Exit:
    """End holds now: what differs from Git is drift again."""
    client = connect(target.cluster)
    manifest = one_application(client, target.namespace, target.name)
    ref = _object_named(manifest, object) if object else None
    ended = [
        kept
        for kept in active_holds(holds_of(manifest), SystemClock().now())
        if ref in (None, kept.ref) and (not field or field_key(field) == field_key(kept.field))
    ]
    requests, writer = user_requests(client, target.data)
    by = User(user_name(origin.by, "--by"))
    requests.end_holds(view_of(manifest), writer, ended, by, origin.reason or "ended by hand")
    for kept in ended:
        say(f"{kept.text} is what Git declares again")
    return Exit.OK


def _seconds(text: str) -> float:
    try:
        return _DURATION.validate_python(text)
    except ValidationError as error:
        raise InvalidInput(f"{text!r} is not a duration", location="--for", hint="write 30m or 2h") from error


def _object_named(application: Manifest, text: str) -> ObjectRef:
    """Return the object of an Application that ``Deployment/web`` names; raise InvalidInput where there is not one."""
    kind, _, name = text.partition("/")
    held = Inventory.from_status(application.get("status") or {}).entries
    matches = [
        ref
        for ref in sorted(held)
        if kind.lower() in (ref.kind.lower(), str(ref.of).lower()) and name in (ref.name, f"{ref.namespace}/{ref.name}")
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        options = " or ".join(f"{ref.of}/{ref.namespace}/{ref.name}" for ref in matches)
        raise InvalidInput(f"{text!r} names {len(matches)} objects", hint=f"write {options}")
    known = ", ".join(f"{ref.kind}/{ref.name}" for ref in sorted(held)[:10])
    raise InvalidInput(f"the Application has no object {text!r}", hint=f"its objects: {known or 'none'}")
