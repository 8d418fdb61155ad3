"""Validation of CertificateSigningRequests (pkg/apis/certificates/validation)."""

from __future__ import annotations

import base64
import re

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import duplicate, invalid, not_supported, required, too_long
from gitsync.sandbox.validation.names import dns_label, dns_subdomain

# Requests of v1beta1 without a signer; v1 has dropped it.
_LEGACY = "kubernetes.io/legacy-unknown"
_LEAST_SECONDS = 600
# RFC 1035, less the length octets.
_DOMAIN_LENGTH = 253
_BLOCK = re.compile(
    rb"(?:^|\n)-----BEGIN CERTIFICATE REQUEST-----\n.*?\n-----END CERTIFICATE REQUEST-----(?:\n|$)", re.DOTALL
)
_USAGES = frozenset(
    {
        "any",
        "cert sign",
        "client auth",
        "code signing",
        "content commitment",
        "crl sign",
        "data encipherment",
        "decipher only",
        "digital signature",
        "email protection",
        "encipher only",
        "ipsec end system",
        "ipsec tunnel",
        "ipsec user",
        "key agreement",
        "key encipherment",
        "microsoft sgc",
        "netscape sgc",
        "ocsp signing",
        "s/mime",
        "server auth",
        "signing",
        "timestamping",
    }
)


def prepare_request(new: Manifest, old: Manifest | None, env: object) -> Manifest:
    """Return a request whose spec stays as it was created."""
    # The signer must not find another request than the approver has read.
    return new if old is None else {**new, "spec": old["spec"]}


def validate_request(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check the spec of a CertificateSigningRequest; its signature is not verified."""
    spec = new["spec"]
    request = spec.get("request", "")
    usages = spec.get("usages") or ()
    causes = []
    # Only the kind of the block: a full check would need a parser of PKCS#10.
    if not _BLOCK.search(base64.b64decode(request)):
        causes.append(invalid("spec.request", request, "PEM block type must be CERTIFICATE REQUEST"))
    if not usages:
        causes.append(required("spec.usages"))
    causes += [
        not_supported(f"spec.usages[{at}]", usage, _USAGES) for at, usage in enumerate(usages) if usage not in _USAGES
    ]
    causes += [duplicate(f"spec.usages[{at}]", usage) for at, usage in enumerate(usages) if usage in usages[:at]]
    signer = spec.get("signerName", "")
    seconds = spec.get("expirationSeconds")
    if signer == _LEGACY:
        causes.append(invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version"))
    else:
        causes += _signer(signer, "spec.signerName")
    if seconds is not None and seconds < _LEAST_SECONDS:
        text = f"may not specify a duration less than {_LEAST_SECONDS} seconds (10 minutes)"
        causes.append(invalid("spec.expirationSeconds", seconds, text))
    return causes


def _signer(name: str, field: str) -> list[StatusCause]:
    """Check the name of a signer, ``example.com/name`` (pkg/apis/core/validation: ValidateSignerName)."""
    if not name:
        return [required(field)]
    domain, slash, path = name.partition("/")
    if not slash or "/" in path:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(field, name, text)]
    causes = [too_long(field, _DOMAIN_LENGTH)] if len(domain) > _DOMAIN_LENGTH else []
    labels = domain.split(".")
    # The server stops at the first wrong label.
    wrong = next((label for label in labels if dns_label(label)), None)
    if wrong is not None:
        causes += [invalid(field, domain, f'validating label "{wrong}": {text}') for text in dns_label(wrong)]
    if len(labels) == 1:
        causes.append(invalid(field, domain, "should be a domain with at least two segments separated by dots"))
    wrong = next((label for label in path.split(".") if dns_subdomain(label)), None)
    if wrong is not None:
        causes += [invalid(field, path, f'validating label "{wrong}": {text}') for text in dns_subdomain(wrong)]
    return causes
