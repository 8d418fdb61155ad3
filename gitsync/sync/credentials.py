"""Credentials, keys and values of charts, from the Secrets and ConfigMaps that an Application names."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from urllib.parse import urlsplit

from gitsync.apply.change import impersonated
from gitsync.errors import InvalidInput, Refused, Rejected
from gitsync.gate.policy import (
    Policy,
    application_violations,
    key_service_violations,
    secret_violations,
    source_violations,
)
from gitsync.objects.application import Application, ChartInputs, SourceGroup, ValuesRef, apps_of_parts
from gitsync.objects.keys import GIT_URLS
from gitsync.objects.manifest import Manifest, annotations_of, resource_version_of, uid_of
from gitsync.objects.ref import ref_of
from gitsync.objects.remote import without_user
from gitsync.objects.urls import is_artifact, matches_url
from gitsync.ports import Cluster, Credentials, LiveCache
from gitsync.secrets import VAULT_ADDRESS, DecryptionKeys, is_key_member

_FIRST_LIST = 5.0
_GITHUB = ("https://github.com/*",)
_CREDENTIALS = "spec.source.credentials.secretRef.name"
_VALUES = "spec.source.helm.valuesFrom"
_READABLE_SECONDS = 600.0
"""Seconds after which the right to read values is asked for again: no watch of ours reports a change of roles."""
_REGISTRIES = "spec.imageUpdates.secretRef.name"


class ApplicationSecrets:
    """Read the Secrets that an Application names, each in the namespace of the Application."""

    def __init__(
        self,
        cluster: Cluster,
        live: LiveCache,
        policies_of: Callable[[Application], Sequence[Policy]] = lambda app: (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._live = live
        self._policies_of = policies_of
        self._monotonic = monotonic
        self._readable: dict[tuple[str, str], tuple[str, float]] = {}
        """Until when which user may read which object, at one of its versions."""

    def credentials(self, app: Application) -> Credentials:
        """
        Return the credentials of the Secret beside the Application, none when it names none.

        Members are ``username`` and ``password``, or ``ssh-privatekey`` and ``known_hosts``, or those of a GitHub App,
        or ``.dockerconfigjson`` of a registry; and ``ca.crt``, and ``token`` for the API of the Git host. The Secret is
        watched, so an unchanged one costs no request and a rotated one is used at once. Raise InvalidInput for a member
        that the URL needs and the Secret lacks, Refused for a URL that the Secret is not for, or that the tenant of the
        Application may not use.
        """
        # Here, because each use of a Git server begins with its credentials: a plan is judged after they were sent.
        self._check(app, source_violations)
        if isinstance(app.source, SourceGroup):
            return Credentials(parts=tuple(map(self.credentials, apps_of_parts(app))))
        name = app.source.credentials_secret
        if not name:
            return Credentials()
        secret = self._secret(app, name, _CREDENTIALS)
        user, password = _registry_password(_text_of(secret, ".dockerconfigjson"), app.source.repo_url)
        credentials = Credentials(
            # without the line end that ``kubectl create secret --from-file`` takes over from a file
            username=user or _text_of(secret, "username").strip("\r\n"),
            password=password or _text_of(secret, "password").strip("\r\n"),
            # OpenSSH does not read keys with the line ends of Windows
            ssh_key=(_text_of(secret, "ssh-privatekey") or _text_of(secret, "identity")).replace("\r\n", "\n"),
            known_hosts=_text_of(secret, "known_hosts").replace("\r\n", "\n"),
            ca=_text_of(secret, "ca.crt"),
            app_id=_text_of(secret, "githubAppID").strip(),
            app_installation=_text_of(secret, "githubAppInstallationID").strip(),
            app_key=_text_of(secret, "githubAppPrivateKey"),
            token=_text_of(secret, "token").strip(),
            signing_key=_text_of(secret, "signing-privatekey").replace("\r\n", "\n"),
        )
        _check_urls(app, secret, has_app_key=bool(credentials.app_key))
        missing = _missing_members(app.source.repo_url, credentials)
        if missing:
            raise InvalidInput(
                f"Secret {app.namespace}/{name} has no {' and no '.join(missing)}",
                location=_CREDENTIALS,
                hint=f"{app.source.repo_url.partition(':')[0] if '://' in app.source.repo_url else 'ssh'} URLs need it",
            )
        return credentials

    def registry_password(self, app: Application, server: str) -> tuple[str, str] | None:
        """Return who signs in at the registry of images with this host, None where the Application names no Secret."""
        name = app.image_updates.credentials_secret
        if not name:
            return None
        self._check(app, secret_violations)
        config = _text_of(self._secret(app, name, _REGISTRIES), ".dockerconfigjson") or "{}"
        # engines list Docker Hub by the address of its index
        hosts = ("https://index.docker.io/v1/", "docker.io") if server == "registry-1.docker.io" else (server,)
        entries = (_engine_entry(config, host, _REGISTRIES) for host in hosts)
        return next((entry for entry in entries if any(entry)), None)

    def signer_keys(self, app: Application) -> tuple[str, ...]:
        """Return the public keys of the Secret that an Application names; one of them has to sign its commits."""
        secret = self._secret(app, app.source.verification_secret, "spec.source.verify.secretRef.name")
        return tuple(_text_of(secret, name) for name in sorted(secret.get("data") or {}))

    def decryption_keys(self, app: Application) -> DecryptionKeys:
        """
        Return what decrypts, of the Secret that an Application names; raise InvalidInput where it has nothing.

        Raise Refused for an address of Vault that the tenant may not use.
        """
        self._check(app, secret_violations)
        if isinstance(app.source, SourceGroup):
            # one for all: an object that several sources encrypted for others is not decrypted by any
            own = [self.decryption_keys(part) for part in apps_of_parts(app) if part.source.decryption_secret]
            if own:
                return DecryptionKeys(tuple(secret for keys in own for secret in keys.secrets), own[0].is_shared)
        where = "spec.source.decryption.secretRef.name"
        name = app.source.decryption_secret
        if not name:
            raise InvalidInput(
                "a Secret in Git is encrypted by SOPS, but the Application names no keys",
                location=where,
                hint="name a Secret with age keys, or with credentials of a key service",
            )
        secret = self._secret(app, name, where)
        members = {key: _text_of(secret, key) for key in sorted(secret.get("data") or {}) if is_key_member(key)}
        if not any(members.values()):
            raise InvalidInput(
                f"Secret {app.namespace}/{name} has no member that ends in .agekey or .asc, and no credentials of a key"
                " service, such as sops.aws-kms",
                location=where,
            )
        for address in members.get(VAULT_ADDRESS, "").split():
            self._check(app, partial(key_service_violations, secret=name, url=address))
        is_shared = any(policy.tenant.is_shared_key for policy in self._policies_of(app) if policy.tenant is not None)
        return DecryptionKeys((members,), is_shared)

    def chart_inputs(self, app: Application) -> ChartInputs:
        """
        Return what the charts of an Application get of the cluster; raise InvalidInput for values that are not there.

        The values are read as the ServiceAccount of the Application, since the authors of the Application and the chart
        decide into which objects they go.
        """
        version, apis = self._cluster.capabilities()
        refs = dict.fromkeys(ref for part in app.source.parts for ref in part.values_from)
        if refs:
            self._check(app, application_violations)
        return ChartInputs(version, apis, tuple((ref, self._values(app, ref)) for ref in refs))

    def _values(self, app: Application, ref: ValuesRef) -> str:
        """Return the values of a ConfigMap or Secret, none where it is optional and absent."""
        subject = f"{ref.kind} {app.namespace}/{ref.name}"
        live = self._beside(app, ref.kind, ref.name, _VALUES)
        if live is None:
            if ref.optional:
                return ""
            raise InvalidInput(f"{subject} does not exist", location=_VALUES, hint="create it, or set optional")
        self._check_readable(app, live, subject)
        text = _text_of(live, ref.key) if ref.kind == "Secret" else str((live.get("data") or {}).get(ref.key) or "")
        if not text and ref.key not in (live.get("data") or {}) and not ref.optional:
            raise InvalidInput(f"{subject} has no member {ref.key}", location=_VALUES, hint="correct key")
        return text

    def _check_readable(self, app: Application, live: Manifest, subject: str) -> None:
        """Raise InvalidInput unless the ServiceAccount of the Application may read an object."""
        user = impersonated(app)
        if not user:
            return  # the controller's own rights, by which it writes for this Application too
        key = (user, uid_of(live))
        known = self._readable.get(key)
        now = self._monotonic()
        if known is not None and known[0] == resource_version_of(live) and now < known[1]:
            return
        try:
            self._cluster.read(ref_of(live), "v1", user=user)
        except Rejected as error:
            self._readable.pop(key, None)
            raise InvalidInput(
                f"{subject} cannot be read as {user}: {error.message}",
                location=_VALUES,
                hint=error.hint or "bind a Role with get on it to the ServiceAccount",
            ) from error
        self._readable[key] = (resource_version_of(live), now + _READABLE_SECONDS)

    def reasoner_key(self, app: Application) -> str:
        """Return the key for the application's reasoner, empty when it needs none."""
        if app.openai is None or not app.openai.key:
            return ""
        self._check(app, secret_violations)
        secret = self._secret(app, app.openai.key, "spec.reasoner.openAI.secretRef.name")
        return _text_of(secret, "apiKey").strip()

    def _check(self, app: Application, violations_of: Callable[[Policy, Application], Iterable[str]]) -> None:
        """Raise Refused for the first thing that a tenant may not use."""
        for policy in self._policies_of(app):
            for line in violations_of(policy, app):
                raise Refused(line, hint="ask the operator to list it in the Tenant, or use what that lists")

    def _beside(self, app: Application, kind: str, name: str, location: str) -> Manifest | None:
        """Return a Secret or ConfigMap beside the Application, None when there is none."""
        resource = self._cluster.resource("", "v1", kind)
        if resource is None:
            raise InvalidInput(f"the cluster serves no {kind}s", location=location)
        # only those of this namespace: the controller may have no right to read others
        self._live.follow([(resource, app.namespace)], _FIRST_LIST, only=True)
        return self._live.get(resource, app.namespace, name) if name else None

    def _secret(self, app: Application, name: str, location: str) -> Manifest:
        """Return a Secret beside the Application; raise InvalidInput naming the field when there is none."""
        secret = self._beside(app, "Secret", name, location)
        if secret is None:
            raise InvalidInput(f"Secret {app.namespace}/{name} does not exist", location=location, hint="create it")
        return secret


def _check_urls(app: Application, secret: Manifest, *, has_app_key: bool) -> None:
    """
    Raise Refused unless the Secret is for the URL: a user who names it in an Application may not be able to read it.

    The signed token of a GitHub App opens all its repositories at github.com for whatever host receives it, so a Secret
    with one is for github.com unless it names other URLs.
    """
    patterns = annotations_of(secret).get(GIT_URLS, "").split() or (_GITHUB if has_app_key else ())
    url = app.source.repo_url
    if patterns and not any(matches_url(pattern, url) for pattern in patterns):
        raise Refused(
            f"Secret {app.namespace}/{app.source.credentials_secret} is for {' '.join(patterns)}, "
            f"not for {without_user(url)}",
            location=_CREDENTIALS,
            hint=f"name another Secret, or add the URL to its annotation {GIT_URLS}",
        )


def _missing_members(url: str, credentials: Credentials) -> list[str]:
    """Return the members that a Secret for a URL lacks; a Secret with certificates only is complete for https."""
    if is_artifact(url):
        return [] if credentials.password or credentials.ca else ["password"]
    if url.startswith(("http://", "https://")):
        app = {
            "githubAppID": credentials.app_id,
            "githubAppInstallationID": credentials.app_installation,
            "githubAppPrivateKey": credentials.app_key,
        }
        if any(app.values()):
            return [name for name, value in app.items() if not value]
        # certificates alone are enough: a server may need its own authority and no password
        return [] if credentials.password or credentials.ca else ["password"]
    if url.startswith("file:"):
        return []
    members = {"ssh-privatekey": credentials.ssh_key, "known_hosts": credentials.known_hosts}
    return [name for name, value in members.items() if not value.strip()]


def _registry_password(config: str, url: str) -> tuple[str, str]:
    """Return the user and password that the config of a container engine has for an artifact's host, else nothing."""
    return _engine_entry(config, urlsplit(url).netloc, _CREDENTIALS) if config and is_artifact(url) else ("", "")


def _engine_entry(config: str, host: str, location: str) -> tuple[str, str]:
    """Return the user and password that the config of a container engine has for a host, empty texts for none."""
    try:
        entry = json.loads(config).get("auths", {}).get(host) or {}
        user, _, password = base64.b64decode(entry.get("auth") or "", validate=True).decode().partition(":")
        return str(entry.get("username") or user), str(entry.get("password") or password)
    except (ValueError, AttributeError, TypeError) as error:
        what = "the member .dockerconfigjson is not the config of a container engine"
        raise InvalidInput(what, location=location) from error


def _text_of(secret: Manifest, key: str) -> str:
    """Return a member of a Secret as text, empty when it has none; raise InvalidInput when it is not UTF-8."""
    encoded = (secret.get("data") or {}).get(key)
    if not encoded:
        return ""
    try:
        return base64.b64decode(encoded).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidInput(f"Secret {secret['metadata']['name']}: {key} is not UTF-8 text in base64") from error
