"""Image updates: which tag of a registry an Application's image policy chooses, and where it is written. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitsync.edit.adopt import ClusterValue
from gitsync.errors import InvalidInput
from gitsync.kube.references import pod_template
from gitsync.objects.application import ImagePolicy
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.semver import parse_range, parse_version

# https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_LONGEST_NUMBER: Final = 18
"""Digits of a number in a tag: a longer one is none that anybody counts with."""


@dataclass(frozen=True, slots=True)
class ImageName:
    """An image as a manifest names it: ``name`` has registry and repository."""

    name: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        """Return the text of a manifest."""
        return self.name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def parse_image(text: str) -> ImageName:
    """Return the parts of an image; what is not a tag stays part of the name, such as the port of a registry."""
    rest, _, digest = text.partition("@")
    name, colon, tag = rest.rpartition(":")
    # the colon of a port precedes a slash
    return ImageName(name, tag, digest) if colon and "/" not in tag else ImageName(rest, "", digest)


def full_name(image: str) -> str:
    """Return the name of an image with its registry and repository, as container engines read a short one."""
    first, slash, rest = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        # the index and the registry of Docker Hub are hosts of their own
        host = "docker.io" if first in ("index.docker.io", "registry-1.docker.io") else first
        return f"{host}/library/{rest}" if host == "docker.io" and "/" not in rest else f"{host}/{rest}"
    return f"docker.io/{image if slash else f'library/{image}'}"


@dataclass(frozen=True, slots=True)
class DeclaredImage:
    """An image of a container that an Application declares, the path of its field, and the policy that follows it."""

    ref: ObjectRef
    container: str
    path: str
    image: ImageName
    policy: ImagePolicy


def declared_images(manifests: Iterable[Manifest], policies: Sequence[ImagePolicy]) -> Iterator[DeclaredImage]:
    """Yield the images that policies follow, by object and container; the first policy of a name counts."""
    by_name = {policy.name: policy for policy in reversed(policies)}
    for manifest in manifests:
        for kind in ("initContainers", "containers"):
            containers = at(pod_template(manifest), "spec", kind, default=())
            for container in containers if isinstance(containers, list) else ():
                image = parse_image(str(at(container, "image", default="")))
                policy = by_name.get(image.name)
                if policy is not None:
                    name = str(at(container, "name", default=""))
                    path = f'{_prefix(manifest)}.spec.{kind}[name="{name}"].image'
                    yield DeclaredImage(ref_of(manifest), name, path, image, policy)


def _prefix(manifest: Manifest) -> str:
    if manifest.get("kind") == "Pod":
        return ""
    return ".spec.jobTemplate.spec.template" if manifest.get("kind") == "CronJob" else ".spec.template"


@dataclass(frozen=True, slots=True)
class ImageChoice:
    """
    The tag that a policy chooses for an image; ``problem`` is why the declared one stays.

    ``running`` is the digest that is declared, or else runs, empty where neither is known; ``moved`` is the digest that
    the registry has now for the declared tag, empty where it is that one.
    """

    declared: DeclaredImage
    newest: str = ""
    problem: str = ""
    running: str = ""
    moved: str = ""

    @property
    def is_newer(self) -> bool:
        """Whether another tag than the declared one is chosen."""
        return not self.problem and self.newest != self.declared.image.tag

    @property
    def has_digest(self) -> bool:
        """Whether the digest is written too: by the policy, or since the declared image has one."""
        return self.declared.policy.pin or bool(self.declared.image.digest)


def moved_tags(choices: Iterable[ImageChoice]) -> dict[ObjectRef, str]:
    """Return a line about the tags that moved, by the objects that declare them."""
    lines: dict[ObjectRef, list[str]] = {}
    for choice in choices:
        if choice.moved:
            declared = choice.declared
            image = ImageName(declared.image.name, declared.image.tag)
            line = f"container {declared.container}: the tag {image} moved from {choice.running} to {choice.moved}"
            lines.setdefault(declared.ref, []).append(line)
    return {ref: "; ".join(texts) for ref, texts in lines.items()}


def choose(declared: DeclaredImage, tags: Iterable[str], reverted: frozenset[str] = frozenset()) -> ImageChoice:
    """
    Return the newest tag that the policy allows, never one that precedes the declared tag.

    ``reverted`` are tags that an earlier update had written and that are declared no more: a newer one is awaited.
    """
    ranks = _ranks(declared.policy, tags)
    if not ranks:
        return ImageChoice(declared, problem="no tag of the registry matches the policy")
    newest = max(ranks, key=lambda tag: (ranks[tag], tag))
    current = _ranks(declared.policy, [declared.image.tag], is_declared=True).get(declared.image.tag)
    if current is None:
        problem = f"the declared tag {declared.image.tag or '(none)'} has no order by the policy; set it once by hand"
        return ImageChoice(declared, newest, problem)
    if ranks[newest] <= current:
        return ImageChoice(declared, declared.image.tag)
    if newest in reverted:
        return ImageChoice(declared, newest, f"{newest} was reverted; a newer one is awaited")
    return ImageChoice(declared, newest)


def _ranks(policy: ImagePolicy, tags: Iterable[str], *, is_declared: bool = False) -> dict[str, Any]:
    """Return what the tags that a policy allows are compared by; a declared tag may be outside of its range."""
    # a registry may answer anything: what is not a tag is never written to a file
    valid = [tag for tag in tags if _TAG.fullmatch(tag)]
    if policy.semver:
        allowed = parse_range(policy.semver)
        if allowed is None:
            raise InvalidInput(f"{policy.semver!r} is not a range of versions", location="spec.images.semver")
        versions = {tag: version for tag in valid if (version := parse_version(tag)) is not None}
        return {tag: version.rank for tag, version in versions.items() if is_declared or allowed.holds(version)}
    head, _, tail = (policy.number or policy.alphabetical).partition("*")
    middles = {
        tag: tag[len(head) : len(tag) - len(tail)]
        for tag in valid
        if len(tag) > len(head) + len(tail) and tag.startswith(head) and tag.endswith(tail)
    }
    if policy.alphabetical:
        return dict(middles)
    return {tag: int(text) for tag, text in middles.items() if text.isdecimal() and len(text) <= _LONGEST_NUMBER}


def image_values(choices: Iterable[ImageChoice], digests: Mapping[str, str]) -> Iterator[ClusterValue]:
    """
    Yield the values that update images; ``digests`` are those of the images that are pinned, by name and tag.

    Raise InvalidInput for a digest that is not one.
    """
    for choice in choices:
        if not choice.is_newer:
            continue
        declared = choice.declared
        image = ImageName(declared.image.name, choice.newest)
        if choice.has_digest:
            digest = digests.get(str(image), "")
            if not _DIGEST.fullmatch(digest):
                raise InvalidInput("the registry names no digest", location=str(image))
            image = ImageName(image.name, image.tag, digest)
        yield ClusterValue(declared.ref, declared.path, str(image), f"the image policy of {declared.policy.name}")


def reverted_tags(messages: Iterable[str], declared: DeclaredImage) -> frozenset[str]:
    """Return the tags that earlier updates of an image had written, from the messages of the commits of the branch."""
    start = f"-> {declared.image.name}:"
    lines = (line for message in messages for line in message.splitlines() if start in line)
    tags = (re.split(r"[@ ]", line.partition(start)[2], maxsplit=1)[0] for line in lines)
    return frozenset(tags) - {declared.image.tag}
