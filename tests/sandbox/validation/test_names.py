from __future__ import annotations

from collections.abc import Callable

import pytest

from gitsync.sandbox.validation import names

LABEL = "a lowercase RFC 1123 label must consist"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist"
PART = "name part must consist"


@pytest.mark.parametrize(
    ("check", "value", "problems"),
    [
        (names.dns_label, "web-1", []),
        (names.dns_label, "1st", []),
        (names.dns_label, "a.b", ["must not contain dots"]),
        (names.dns_label, "-a", [LABEL]),
        (names.dns_label, "a" * 64, ["must be no more than 63 characters"]),
        (names.dns_subdomain, "a.b-c", []),
        (names.dns_subdomain, "a..b", [SUBDOMAIN]),
        (names.dns_subdomain, "A" * 254, ["must be no more than 253 characters", SUBDOMAIN]),
        (names.dns_1035_label, "1st", ["a DNS-1035 label must consist"]),
        (names.label_value, "", []),
        (names.label_value, "a b", ["a valid label must be an empty string"]),
        (names.label_value, "a" * 64, ["must be no more than 63 bytes"]),
        (names.qualified_name, "app.kubernetes.io/name", []),
        (names.qualified_name, "/name", ["prefix part must be non-empty"]),
        (names.qualified_name, "a b/name", [f"prefix part {SUBDOMAIN}"]),
        (names.qualified_name, "a/", ["name part must be non-empty", PART]),
        (names.qualified_name, "a/b/c", ["a valid label key must consist"]),
        (names.qualified_name, "a" * 64, ["name part must be no more than 63 bytes"]),
        (names.wildcard_subdomain, "*.example.com", []),
        (names.wildcard_subdomain, "*", ["a wildcard DNS-1123 subdomain must start with"]),
        (names.config_key, "a.b_C-d", []),
        (names.config_key, "..", ["must not be '..'"]),
        (names.config_key, "../x", ["a valid config key must consist", "must not start with '..'"]),
        (names.env_name, "A.b-1", []),
        (names.env_name, "A=B", ["a valid environment variable name must consist"]),
        (names.port_name, "http-1", []),
        (names.port_name, "80", ["must contain at least one letter (a-z)"]),
        (names.port_name, "a--b", ["must not contain consecutive hyphens"]),
        (names.port_name, "-a", ["must not begin or end with a hyphen"]),
        (names.port_name, "this-name-is-too-long", ["must be no more than 15 characters"]),
        (names.ip_address, "fd00::1", []),
        (names.ip_address, "10.0.0.256", ["must be a valid IP address"]),
        (names.cidr, "10.0.0.0/8", []),
        (names.cidr, "10.0.0.1", ["must be a valid CIDR value"]),
        (names.cidr, "nonsense", ["must be a valid CIDR value"]),
    ],
)
def test_a_name_is_told_what_is_wrong(check: Callable[[str], list[str]], value: str, problems: list[str]) -> None:
    found = check(value)
    assert len(found) == len(problems)
    assert all(text.startswith(start) for text, start in zip(found, problems, strict=True)), found
