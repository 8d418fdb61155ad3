"""
What a changed text tells a model that the one before did not: where to send data, what to do, what to hide.

The rules are rows, each with its reason. They find what attacks on tool descriptions have in common ("tool poisoning");
a text that passes them is not proven harmless, so that a change of wording is reported too.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from enum import Enum
from typing import Final

import re2


class Wording(Enum):
    """What a new text adds; the value is what the difference says."""

    DESTINATION = "names a new destination"
    INSTRUCTION = "instructs the agent"
    CONCEALMENT = "asks to conceal"
    SECRETS = "asks for secrets"
    HIDDEN = "has hidden or encoded text"
    OTHER_TOOL = "names another tool"


def _words(*patterns: str) -> re2.Pattern:
    return re2.compile(rf"\b(?:{'|'.join(patterns)})")


_DESTINATIONS: Final = re2.compile(
    r"[a-z][a-z0-9+.-]*://[^\s\"'<>)\]]+"
    r"|[a-z0-9._%+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+"
    # Names of hosts; two letters or more at the end, so that "e.g." and version numbers are none.
    r"|\b(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:com|net|org|io|dev|app|ai|sh|xyz|info|biz|me|co|ru|cn|de|eu|tk|onion|local|internal|example|test)\b"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
)
_RULES: Final = (
    (
        Wording.CONCEALMENT,
        _words(
            r"(?:do not|don'?t|never|must not|mustn'?t|should not|without)"
            r"(?: \w+){0,2} (?:tell|telling|mention|mentioning|reveal|revealing|inform|informing|show|showing|disclose"
            r"|disclosing|notify|notifying|display|displaying|report|reporting|ask|asking|log|logging|explain|explaining)",
            r"(?:conceal|hide|hidden from|keep (?:this|it|that)(?: \w+)? (?:secret|hidden|private|confidential))",
            r"(?:secretly|silently|quietly|covertly|discreetly|behind the scenes)",
            r"(?:not|never) (?:be )?visible to",
        ),
    ),
    (
        Wording.SECRETS,
        _words(
            r"(?:api|access|private|ssh|secret) keys?",
            r"(?:passwords?|passphrases?|credentials?|bearer|access tokens?|auth(?:entication)? tokens?)",
            r"(?:environment variables?|id_rsa|\.ssh|\.env|\.aws|kubeconfig|/etc/passwd)",
        ),
    ),
    (
        Wording.INSTRUCTION,
        _words(
            r"you (?:must|should|need to|have to|are required|will always|are now|may not)",
            r"(?:ignore|disregard|forget|override|bypass)(?: \w+){0,4} (?:instructions?|prompts?|rules?|polic(?:y|ies)"
            r"|messages?|above|approvals?)",
            r"(?:the|this|any) (?:agent|assistant|model|llm|ai|caller) (?:must|should|shall|has to|needs to|will)",
            r"(?:always|first|before|after)(?: \w+){0,5} (?:call|use|invoke|run|read|send|include|append|pass|forward"
            r"|execute)\b",
            r"(?:before|after|when|whenever|instead of)(?: \w+){0,3} (?:calling|using|invoking|answering|responding"
            r"|running)",
            r"(?:make sure|be sure|remember|it is (?:important|essential|mandatory|required)) (?:to|that|you)",
            r"(?:include|append|attach|send|forward|pass|copy|repeat|summari[sz]e)(?: \w+){0,4} (?:conversation|chat"
            r"|context|history|messages?|transcript|prompt)",
            r"(?:tell|ask|convince|instruct|urge) the (?:user|customer|person|human|operator)",
            r"(?:respond|reply|answer) (?:only )?with",
            r"system prompt|jailbreak|developer mode",
            r"(?:without|skip|no) (?:asking for |requiring |waiting for |need for )?(?:approval|confirmation|permission"
            r"|consent)",
        ),
    ),
    (
        Wording.INSTRUCTION,
        re2.compile(
            r"<\s*/?\s*(?:important|system|instructions?|assistant|user|admin|secret)\b|\[inst\]|\bimportant\s*:"
        ),
    ),
)
"""First the more serious: what matches several is named by all of them."""
_HIDDEN: Final = re2.compile(
    # Format characters (zero width, direction), tags and variation selectors beyond emoji, and comments of markup.
    r"[\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2064}\x{2066}-\x{2069}\x{feff}\x{e0000}-\x{e01ef}]|<!--|\x1b\["
    # Long runs of base64 or hex without a space.
    r"|[A-Za-z0-9+/=_-]{120,}"
)


def same_words(old: str, new: str) -> bool:
    """Whether two texts differ in white space alone."""
    return old.split() == new.split()


def additions(old: str, new: str, other_tools: frozenset[str]) -> tuple[Wording, ...]:
    """Return what a text tells that the one before did not; ``other_tools`` are names that it should not mention."""
    return tuple(dict.fromkeys(_additions(old, new, other_tools)))


def _additions(old: str, new: str, other_tools: frozenset[str]) -> Iterator[Wording]:
    if set(_matches(_HIDDEN, new)) - set(_matches(_HIDDEN, old)):
        yield Wording.HIDDEN
    before = _plain(old)
    after = _plain(new)
    if set(_matches(_DESTINATIONS, after)) - set(_matches(_DESTINATIONS, before)):
        yield Wording.DESTINATION
    for wording, pattern in _RULES:
        # What the text has already said was reviewed with it.
        if set(_matches(pattern, after)) - set(_matches(pattern, before)):
            yield wording
    if any(_names(after, name) and not _names(before, name) for name in other_tools):
        yield Wording.OTHER_TOOL


def _matches(pattern: re2.Pattern, text: str) -> Iterator[str]:
    return (match.group(0) for match in pattern.finditer(text))


def _plain(text: str) -> str:
    """Return a text in the form that the rules know: compatible letters, small, one space, nothing invisible."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Cf are format characters such as zero-width spaces, which would split a word for the rules and not for a model.
    visible = "".join(char for char in folded if unicodedata.category(char) != "Cf")
    return " ".join(visible.replace("\u2019", "'").split())


def _names(text: str, name: str) -> bool:
    escaped = re2.escape(name.casefold())
    # Names of one common word, such as "search", are words of any description.
    if name.isalpha() and name.islower():
        quoted = rf"[`'\"(]{escaped}[`'\")]"
        return bool(re2.search(rf"{quoted}|\b{escaped} (?:tool|function)\b|\b(?:tool|function) {escaped}\b", text))
    return bool(re2.search(rf"(?:^|[^\w]){escaped}(?:$|[^\w])", text))
