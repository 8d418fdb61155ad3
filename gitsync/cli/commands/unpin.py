"""``gitsync unpin``."""

from __future__ import annotations

from gitsync.cli.applications import change_application, connect, one_application, pinned_from
from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import DATA, NAMESPACE, Data, Kubeconfig, Name, Namespace, Target
from gitsync.cli.output import Exit, say
from gitsync.errors import InvalidInput
from gitsync.objects.keys import PIN_MANAGER
from gitsync.objects.manifest import at


@exit_on_error
def unpin(name: Name, namespace: Namespace = NAMESPACE, kubeconfig: Kubeconfig = "", data: Data = DATA) -> Exit:
    """Follow the revision again that was followed before the pin."""
    target = Target(name=name, namespace=namespace, kubeconfig=kubeconfig, data=data)
    client = connect(target.cluster)
    manifest = one_application(client, namespace, name)
    followed = pinned_from(manifest)
    if not followed:
        raise InvalidInput(
            f"is not pinned: it follows {at(manifest, 'spec', 'source', 'revision')}",
            object=f"Application {target.key}",
        )
    change_application(client, target, PIN_MANAGER, spec={"source": {"revision": followed}})
    say(f"{target.key} follows {followed} again")
    return Exit.OK
