"""ResourceQuota controller: report limits and usage in the status; admission enforces them."""

from __future__ import annotations

from collections import Counter

from gitsync.kube.quantity import Quantity, parse
from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.admission.quota import in_scope, usage_of
from gitsync.sandbox.controllers.base import SandboxController
from gitsync.sandbox.controllers.object_meta import Key, is_deleting, key_of, kind_of
from gitsync.sandbox.controllers.pods import is_finished

_KIND = ("", "ResourceQuota")


class Quotas(SandboxController):
    """Recount the usage of a namespace when its quota changes or an object in it is deleted."""

    name = "resourcequota"
    watches = frozenset({("*", "*")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark a quota that is new or changed, and those of a namespace from which something went."""
        if kind_of(obj) == _KIND:
            if event != "DELETED" and (old is None or old["spec"] != obj["spec"]):
                self.enqueue(key_of(obj))
            return
        # Finished pods are not counted; creation needs no event, since admission raises the usage.
        ended = obj["kind"] == "Pod" and is_finished(obj)
        if (event == "DELETED" or ended) and obj["metadata"].get("namespace"):
            for quota in self.api.list(*_KIND, obj["metadata"]["namespace"]):
                self.enqueue(key_of(quota))

    def reconcile(self, key: Key) -> None:
        """Write the limits as they are and the sums of what is used."""
        quota = self.api.get(*_KIND, *key)
        if quota is None or is_deleting(quota):
            return
        hard = at(quota, "spec", "hard") or {}
        sums: Counter[str] = Counter()
        # The usage is printed in the form of the last amount added: 1Gi, not 1073741824.
        forms = {name: parse(str(limit)).form for name, limit in hard.items()}
        for obj in self.api.everything(key[0]):
            group, kind = kind_of(obj)
            resource = self.api.resource(group, kind)
            # The kind of a deleted definition.
            if resource is None or not in_scope(quota, obj, is_pod=(group, kind) == ("", "Pod")):
                continue
            for name, amount in usage_of(obj, resource[0], group).items():
                if name in hard:
                    sums[name] += amount.nanos
                    forms[name] = amount.form
        used = {name: str(Quantity(sums[name], forms[name])) for name in hard}
        self.write_status(quota, {"hard": hard, "used": used})
