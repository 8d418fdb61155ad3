"""The operator's file of notifications: which kinds, of which Applications, to which URLs, how often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gitsync.errors import InvalidInput
from gitsync.objects.patterns import matches
from gitsync.render.yaml.reader import read_all
from gitsync.server.notify.notices import Notice

Kind = Literal[
    "synced",
    "recovered",
    "failed",
    "drifted",
    "degraded",
    "approval",
    "drift",
    "budget",
    "healed",
    "heal-failed",
    "tag-moved",
    "safe",
    "moderate",
    "dangerous",
]


class NotificationRule(BaseModel):
    """
    One rule; ``urls`` are those of Apprise, ``urlFile`` names a file with one a line, for URLs that hold credentials.

    At most one message per Application is sent in ``interval`` seconds; the last state is sent at its end. A state has
    to last ``settle`` seconds.
    """

    # a mistyped member would silently be a rule for other notices
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    applications: tuple[str, ...] = ("*",)
    kinds: tuple[Kind, ...] = ("failed", "drifted", "degraded", "approval", "budget", "recovered")
    urls: tuple[str, ...] = ()
    url_file: Path | None = Field(None, alias="urlFile")
    interval: float = Field(60.0, ge=0)
    settle: float = Field(10.0, ge=0)

    def wants(self, notice: Notice) -> bool:
        """Tell whether the rule is about this notice."""
        return notice.kind in self.kinds and self.covers(notice.application)

    def covers(self, application: str) -> bool:
        """Tell whether the rule is about an Application, named ``namespace/name``."""
        # a pattern matches a name with its namespace or without
        names = (application, application.rpartition("/")[2])
        return any(matches(name, pattern) for name in names for pattern in self.applications)

    @property
    def services(self) -> tuple[str, ...]:
        """The services of its URLs, such as ``slack`` and ``mailto``: all other parts of a URL may be secrets."""
        try:
            targets = self.targets()
        except InvalidInput:
            return ("the file of URLs cannot be read",)
        return tuple(dict.fromkeys(target.partition(":")[0] for target in targets))

    def targets(self) -> tuple[str, ...]:
        """Return the URLs; the file is read each time, so that it can be rotated. Raise InvalidInput without it."""
        if self.url_file is None:
            return self.urls
        try:
            lines = self.url_file.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                "cannot read the URLs of notifications",
                location=str(self.url_file),
                hint="correct urlFile, or the permissions of the file",
            ) from error
        return (*self.urls, *lines)


@dataclass(frozen=True, slots=True)
class Receivers:
    """Where the controller sends what happens: by rules of the operator, and as Kubernetes Events."""

    rules: tuple[NotificationRule, ...] = ()
    has_events: bool = False

    def of(self, applications: Iterable[str]) -> tuple[NotificationRule, ...]:
        """Return the rules that are about at least one of some Applications."""
        names = tuple(applications)
        return tuple(rule for rule in self.rules if any(map(rule.covers, names)))


def read_rules(file: Path) -> tuple[NotificationRule, ...]:
    """Return the rules of a YAML file, a list; raise InvalidInput with the place of an error."""
    try:
        documents = read_all(file.read_bytes(), file.name)
    except OSError as error:
        raise InvalidInput("cannot read the file of notifications", location=str(file)) from error
    items = [item for document in documents for item in (document if isinstance(document, list) else [document])]
    rules = []
    for number, item in enumerate(items):
        try:
            rules.append(NotificationRule.model_validate(item))
        except ValidationError as error:
            wrong = error.errors()[0]
            where = ".".join(str(part) for part in wrong["loc"])
            raise InvalidInput(wrong["msg"], location=f"{file}: [{number}].{where}") from error
    return tuple(rules)
