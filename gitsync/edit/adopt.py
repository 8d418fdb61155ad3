"""Take values that fields have in the cluster back into Git: the edits, and what cannot be written there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitsync.edit.engine import Edit, Editor, EditScope
from gitsync.edit.proof import EditTarget
from gitsync.errors import InvalidInput, one_line
from gitsync.kube.field_path import parse_path
from gitsync.objects.manifest import Manifest, content_hash
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.mask import is_secret
from gitsync.render.build import Build

_VALUE: Final = 80
"""Characters of a value in a message; a prompt has thousands."""
_WROTE: Final = "Gitsync-Wrote: "
"""Lines of a commit of gitsync, one for each value that it writes: digests of the field and of the value."""
_REPEATS: Final = 2
"""How often an update may write one value to a field: more is a value that something else replaces each time."""


@dataclass(frozen=True, slots=True)
class EditPurpose:
    """
    Why values are written to Git: the word in the name of the branch, and the start of the commit's subject.

    ``has_one_branch``: an Application has one such branch, which is updated, instead of one for each set of values.
    """

    word: str
    subject: str
    has_one_branch: bool = False

    @property
    def trailer(self) -> str:
        """The name of the commit's last line, by which the commits of gitsync are recognised."""
        return f"Gitsync-{self.word.capitalize()}"

    def branch(self, name: str) -> str:
        """Return the one branch of an Application of this name."""
        return f"gitsync/{self.word}-{name}"


KEEP: Final = EditPurpose("adopt", "Keep what was changed in the cluster")
IMAGES: Final = EditPurpose("images", "Update images", has_one_branch=True)
PROMOTE: Final = EditPurpose("promote", "Promote", has_one_branch=True)


@dataclass(frozen=True, slots=True)
class ClusterValue:
    """
    A value that a field shall have: of the cluster, of an image policy, or of another environment.

    ``manager`` and ``time`` (RFC 3339) tell who set it and when.
    """

    ref: ObjectRef
    path: str
    value: Any
    manager: str = ""
    time: str = ""

    @property
    def by(self) -> str:
        """Who set it and when, as far as that is known."""
        return " at ".join(filter(None, (self.manager, self.time))) or "an unknown manager"


@dataclass(frozen=True, slots=True)
class AdoptedValue:
    """A value that is written to a line of a file, which had another one."""

    kept: ClusterValue
    where: str
    old: Any

    def __str__(self) -> str:
        """Return the object, the field, both values, the line, and who set the new one."""
        change = f"{_shown(self.old)} -> {_shown(self.kept.value)}"
        return f"{self.kept.ref} {self.kept.path}: {change} ({self.where}), by {self.kept.by}"


@dataclass(frozen=True, slots=True)
class Adoption:
    """The files with their new contents, the values that they hold, and why others are not among them."""

    files: Mapping[str, bytes]
    values: tuple[AdoptedValue, ...]
    refused: tuple[tuple[ClusterValue, str], ...]
    purpose: EditPurpose = KEEP
    manifests: tuple[Manifest, ...] = ()
    """What the folder renders to with the edits, where the one who found them rendered it."""

    @property
    def digest(self) -> str:
        """A digest of the new contents, by which a user agrees to exactly what was shown."""
        return content_hash({name: content.decode(errors="replace") for name, content in self.files.items()})[:12]

    def message(self, application: str, reason: str = "") -> str:
        """Return the message of the commit: what is kept, who changed it and when."""
        objects = list(dict.fromkeys(str(item.kept.ref) for item in self.values))
        subject = f"{self.purpose.subject}: {objects[0]}" + (f" and {len(objects) - 1} more" if objects[1:] else "")
        lines = [one_line(subject, 100), "", *(one_line(f"- {item}", 400) for item in self.values)]
        lines += ["", one_line(reason, 400)] if reason else []
        # the trailer is the last line: a branch with it may be updated
        lines += [
            "",
            *(f"{_WROTE}{_mark(item.kept)}" for item in self.values),
            f"{self.purpose.trailer}: {application}",
        ]
        return "\n".join([*lines, ""])


def written_values(messages: Iterable[str], purpose: EditPurpose, application: str) -> tuple[str, ...]:
    """Return the marks of the values that commits of gitsync wrote for an Application, in the order of the messages."""
    trailer = f"{purpose.trailer}: {application}"
    lines = (message.splitlines() for message in messages)
    own = (of_commit for of_commit in lines if trailer in of_commit)
    return tuple(line.removeprefix(_WROTE) for of_commit in own for line in of_commit if line.startswith(_WROTE))


def set_back(values: Iterable[ClusterValue], marks: Sequence[str]) -> Iterator[tuple[ClusterValue, str]]:
    """
    Yield each value with the reason why it is not proposed again, empty where it may be.

    ``marks`` are those of earlier commits, newest first. A value that the last of them had written was set back since,
    by a person or another program: it waits for a newer one. One that was written twice and replaced each time would be
    written for ever.
    """
    for value in values:
        mark = _mark(value)
        field = mark.partition(":")[0]
        of_field = [earlier for earlier in marks if earlier.partition(":")[0] == field]
        if of_field and of_field[0] == mark:
            yield value, "was taken before and set back since; another value is awaited"
        elif of_field.count(mark) >= _REPEATS:
            yield (
                value,
                f"was taken {of_field.count(mark)} times and replaced each time; does another program write it?",
            )
        else:
            yield value, ""


def _mark(value: ClusterValue) -> str:
    field = content_hash([value.ref.path, value.path])[:12]
    return f"{field}:{content_hash([value.value])[:12]}"


def adopt(target: EditTarget, values: Iterable[ClusterValue], namespace: str) -> Adoption:
    """
    Return the edits by which a tree renders to values of the cluster, each proved by rendering.

    ``namespace`` is that of objects that name none. A value that no single place sets, or whose edit would change
    another environment, is refused with its reason, and does not keep the others from being taken. So is one whose line
    is in another repository than that of the values before it: an adoption is one commit.
    """
    files: dict[str, bytes] = {}
    adopted: list[AdoptedValue] = []
    refused: list[tuple[ClusterValue, str]] = []
    for kept in values:
        # each edit is made on the result of those before
        editor = Editor(target.after(files))
        try:
            _check(kept)
            position = _position(editor.build, kept.ref, namespace)
            edit = _edit(editor, position, kept)
        except InvalidInput as error:
            refused.append((kept, str(error)))
            continue
        file = target.first_copy(edit.file)
        if any(target.repository_of(other) != target.repository_of(file) for other in files):
            refused.append((kept, f"its line is in another repository, {edit.file}:{edit.line}; take it by itself"))
            continue
        files[file] = edit.content
        adopted.append(AdoptedValue(kept, f"{file}:{edit.line}", edit.old))
    return Adoption(files, tuple(adopted), tuple(refused))


def _edit(editor: Editor, position: int, kept: ClusterValue) -> Edit:
    """Return the edit of the place that sets the field, or a patch where that place is shared with others."""
    path = parse_path(kept.path)
    try:
        return editor.set_value(position, path, kept.value, EditScope())
    except InvalidInput:
        # what was changed in one environment is kept in that one alone
        return editor.set_value(position, path, kept.value, EditScope(overlay=True))


def _check(kept: ClusterValue) -> None:
    if is_secret(kept.ref):
        raise InvalidInput("is a Secret, whose values are not written to Git in plain text", hint="encrypt it by hand")
    if kept.value is None or isinstance(kept.value, dict | list):
        raise InvalidInput(f"{kept.path} is not a plain value", hint="edit the file by hand; see gitsync explain")


def _position(build: Build, ref: ObjectRef, namespace: str) -> int:
    for position, manifest in enumerate(build.manifests):
        rendered = ref_of(manifest)
        is_placed = rendered.namespace == ref.namespace or (not rendered.namespace and ref.namespace == namespace)
        if (rendered.of, rendered.name) == (ref.of, ref.name) and is_placed:
            return position
    raise InvalidInput("is not declared by the newest commit", object=str(ref))


def _shown(value: Any) -> str:
    return "nothing" if value is None else one_line(str(value), _VALUE)
