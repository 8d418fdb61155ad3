"""The syntax of names, labels, keys, ports and addresses: each check returns what is wrong, in the server's words."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache

Check = Callable[[str], list[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_SEARCH_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = rf"{_SEARCH_LABEL}(\.{_SEARCH_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_label = re.compile(_LABEL)
_subdomain = re.compile(_SUBDOMAIN)
_label_1035 = re.compile(_LABEL_1035)
_qualified = re.compile(_QUALIFIED)
_label_value = re.compile(f"({_QUALIFIED})?")
_config_key = re.compile(_CONFIG_KEY)
_env_name = re.compile(r"[ -<>-~]+")
_port_chars = re.compile("[-a-z0-9]+")
_percent = re.compile("[0-9]+%")

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
    f"end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_SEARCH_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SEARCH}')"
)
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist "
    "of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. "
    rf"'*.example.com', regex used for validation is '\*\.{_SUBDOMAIN}')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    f"validation is '{_LABEL_1035}')"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_QUALIFIED}')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    f"validation is '({_QUALIFIED})?')"
)
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    f"'KEY_NAME',  or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
)


def longer_than(limit: int, unit: str = "characters") -> str:
    """Return the text for a name that is too long."""
    return f"must be no more than {limit} {unit}"


def _named(pattern: re.Pattern[str], text: str, limit: int, unit: str = "characters") -> Check:
    @lru_cache(maxsize=4096)
    def check(value: str) -> list[str]:
        problems = [longer_than(limit, unit)] if len(value) > limit else []
        if not pattern.fullmatch(value):
            problems.append(text)
        return problems

    return check


@lru_cache(maxsize=4096)
def dns_label(value: str) -> list[str]:
    """Check a DNS-1123 label; report a name that is only invalid because of dots as such."""
    problems = [longer_than(63)] if len(value) > 63 else []
    if not _label.fullmatch(value):
        problems.append("must not contain dots" if _subdomain.fullmatch(value) else _LABEL_TEXT)
    return problems


dns_subdomain = _named(_subdomain, _SUBDOMAIN_TEXT, 253)
search_domain = _named(re.compile(_SEARCH), _SEARCH_TEXT, 253)
dns_1035_label = _named(_label_1035, _LABEL_1035_TEXT, 63)
label_value = _named(_label_value, _LABEL_VALUE_TEXT, 63, "bytes")


def wildcard_subdomain(value: str) -> list[str]:
    """Check a name such as ``*.example.com``."""
    problems = [longer_than(253)] if len(value) > 253 else []
    if not value.startswith("*.") or not _subdomain.fullmatch(value[2:]):
        problems.append(_WILDCARD_TEXT)
    return problems


@lru_cache(maxsize=4096)
def qualified_name(value: str) -> list[str]:
    """Check a label or annotation key: ``[prefix/]name``."""
    prefix, slash, name = value.rpartition("/")
    problems: list[str] = []
    if "/" in prefix:
        return [
            "a valid label key " + _QUALIFIED_TEXT + " with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    if slash:
        if not prefix:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {text}" for text in dns_subdomain(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append("name part " + longer_than(63, "bytes"))
    if not _qualified.fullmatch(name):
        problems.append("name part " + _QUALIFIED_TEXT)
    return problems


def config_key(value: str) -> list[str]:
    """Check a key of a ConfigMap or Secret."""
    problems = [longer_than(253)] if len(value) > 253 else []
    if not _config_key.fullmatch(value):
        problems.append(_CONFIG_KEY_TEXT)
    if value == ".":
        problems.append("must not be '.'")
    elif value == "..":
        problems.append("must not be '..'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def env_name(value: str) -> list[str]:
    """Check the name of an environment variable."""
    if _env_name.fullmatch(value):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


@lru_cache(maxsize=1024)
def port_name(value: str) -> list[str]:
    """Check the name of a port (an IANA service name)."""
    problems = []
    if len(value) > 15:
        problems.append(longer_than(15))
    if not _port_chars.fullmatch(value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value[:1] == "-" or value[-1:] == "-":
        problems.append("must not begin or end with a hyphen")
    return problems


def is_percent(value: object) -> bool:
    """Return whether the value is a string such as ``25%``."""
    return isinstance(value, str) and _percent.fullmatch(value) is not None


_path_chars = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")

PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used "
    "for validation is '[0-9]+%')"
)


def ip_address(value: str) -> list[str]:
    """Check an IP address of either family."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def cidr(value: str) -> list[str]:
    """Check a network in CIDR notation."""
    try:
        address, slash, _ = value.partition("/")
        ipaddress.ip_address(address)
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        slash = ""
    return [] if slash else ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]


def http_path(value: str) -> list[str]:
    """Check a path of the characters that a URL may have in one."""
    text = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"
    return [] if _path_chars.fullmatch(value) else [text]


def local_path_problems(path: str) -> list[str]:
    """Return what is wrong with a path that must stay inside a volume."""
    problems = []
    if path.startswith("/"):
        problems.append("must be a relative path")
    if ".." in path.split("/"):
        problems.append("must not contain '..'")
    return problems


def path_segment(value: str) -> list[str]:
    """Return what is wrong with a name that only has to fit into a URL, as those of RBAC kinds do."""
    problems = [f"may not be '{value}'"] if value in (".", "..") else []
    return problems + [f"may not contain '{char}'" for char in "/%" if char in value]
