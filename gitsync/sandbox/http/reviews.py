"""Review APIs: access reviews, token reviews and self subject reviews."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.rbac import AccessAttributes
from gitsync.sandbox.registry.metadata import object_member, wrong_type
from gitsync.sandbox.users import AUDIENCE, ApiUser, Tokens

Review = Callable[[Manifest, ApiUser, str], dict[str, Any]]
"""From the review, the user who sends it and the namespace of the URL to its status."""


UNMANAGED = frozenset({"SelfSubjectRulesReview", "SelfSubjectReview"})
"""Reviews that are answered without managedFields."""


class AccessReviews:
    """Answer the kinds that are asked by POST and stored nowhere."""

    def __init__(self, cluster: SandboxCluster, tokens: Tokens) -> None:
        self._cluster = cluster
        self._tokens = tokens
        self._kinds: dict[tuple[str, str], Review] = {
            ("authorization.k8s.io", "SelfSubjectAccessReview"): self._self_access,
            ("authorization.k8s.io", "SubjectAccessReview"): self._access,
            ("authorization.k8s.io", "LocalSubjectAccessReview"): self._access,
            ("authorization.k8s.io", "SelfSubjectRulesReview"): self._rules,
            ("authentication.k8s.io", "SelfSubjectReview"): self._self,
            ("authentication.k8s.io", "TokenReview"): self._token,
        }

    def find(self, group: str, kind: str) -> Review | None:
        """Return the handler of a kind of review, None for any other kind."""
        return self._kinds.get((group, kind))

    def _self_access(self, review: Manifest, user: ApiUser, namespace: str) -> dict[str, Any]:
        return self._decide(user, object_member(review, "spec"), namespace)

    def _access(self, review: Manifest, user: ApiUser, namespace: str) -> dict[str, Any]:
        spec = object_member(review, "spec")
        groups = spec.get("groups") or ()
        if not isinstance(groups, list):
            raise wrong_type(groups, "SubjectAccessReviewSpec.spec.groups", "[]string")
        return self._decide(
            ApiUser(str(spec.get("user") or ""), tuple(map(str, groups)), str(spec.get("uid") or "")), spec, namespace
        )

    def _decide(self, user: ApiUser, spec: Manifest, namespace: str) -> dict[str, Any]:
        path = object_member(spec, "nonResourceAttributes")
        asked = object_member(spec, "resourceAttributes")
        if path:
            wanted = AccessAttributes(str(path.get("verb") or ""), path=str(path.get("path") or ""))
        else:
            wanted = AccessAttributes(
                str(asked.get("verb") or ""),
                str(asked.get("group") or ""),
                str(asked.get("resource") or ""),
                str(asked.get("subresource") or ""),
                str(asked.get("namespace") or namespace),
                str(asked.get("name") or ""),
            )
        return {"allowed": self._cluster.authorizer.allowed(user, wanted)}

    def _rules(self, review: Manifest, user: ApiUser, namespace: str) -> dict[str, Any]:
        of = str(object_member(review, "spec").get("namespace") or "")
        resource_rules = []
        path_rules = []
        for rule in self._cluster.authorizer.rules(user, of):
            if rule.get("nonResourceURLs"):
                path_rules.append({"verbs": rule["verbs"], "nonResourceURLs": rule["nonResourceURLs"]})
            else:
                keys = ("verbs", "apiGroups", "resources", "resourceNames")
                resource_rules.append({key: rule[key] for key in keys if key in rule})
        return {"resourceRules": resource_rules, "nonResourceRules": path_rules, "incomplete": False}

    def _self(self, review: Manifest, user: ApiUser, namespace: str) -> dict[str, Any]:
        review["metadata"] = {
            "creationTimestamp": self._cluster.clock.timestamp()
        }  # the rest of what was sent is dropped
        return {"userInfo": user.to_dict()}

    def _token(self, review: Manifest, user: ApiUser, namespace: str) -> dict[str, Any]:
        token = str(object_member(review, "spec").get("token") or "")
        try:
            token_user = self._tokens.user_of(f"Bearer {token}", self._cluster.clock.now())
        except ApiError:
            return {"user": {}, "error": "[invalid bearer token, the token is not known]"}
        if not token:
            return {"user": {}}
        return {"authenticated": True, "user": token_user.to_dict(), "audiences": [AUDIENCE]}
