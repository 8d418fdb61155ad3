"""One module for each command; a module is imported when its command runs, so that help starts fast."""

from __future__ import annotations

from typing import Final

GROUPS: Final = {
    "Every day": {
        "status": "Show sync state, health and reasons.",
        "changes": "List commits with their syncs, drift, decisions and requests, newest first.",
        "prs": "List the pull requests that wait, with what they will do, or show one of them.",
        "logs": "Print the log of a container of a Pod that an object owns, or is.",
        "diff": "Show each field in which the cluster differs from Git.",
        "plan": "Show what a sync would do: each step with its class, rule and reason.",
        "sync": "Request a sync now and wait until it ends.",
        "approve": "Approve the held plan for one sync, exactly as it is, or some steps of it with all that they need.",
        "reject": "Reject the held plan; it stays held until it changes.",
        "rollback": "Push a revert commit to Git; the controller then applies it.",
    },
    "Find out why": {
        "tree": "Show the objects of an Application by kind, and under each what it owns, down to the Pods.",
        "objects": "List the objects of all Applications, those with problems first.",
        "events": "List the Kubernetes Events about an object of an Application, newest first.",
        "drift": "Show what was changed in the cluster since the last apply, by whom and when.",
        "orphans": "List objects that an Application applied and that no Application holds any more.",
        "history": "List the syncs: commit, author, message, outcome.",
        "report": "Report drift, time to repair, decisions, images without a digest and agents without an evaluation.",
        "audit": "List every write and decision, or verify, export or accept the chain of hashes.",
        "policy": "Explain the operator's policies, and list who may do what.",
        "top": "Show which Applications cost the controller most: reconciles, requests, CPU time, slowest stage.",
    },
    "Hold an Application": {
        "pin": "Follow one commit until unpinned, whatever the branch does.",
        "unpin": "Follow the revision again that was followed before the pin.",
        "hold": ("Keep a field of an object as it is during an incident, whatever Git declares; it ends by itself."),
        "unhold": "End holds now: what differs from Git is drift again.",
        "suspend": "Stop syncing an Application; its objects stay.",
        "resume": "Resume syncing a suspended Application.",
    },
    "Agents and sets": {
        "agents": "List the agents of all Applications: state, model, revisions that serve, are tried and failed.",
        "agent": "Promote, abort, restart or back up an Agent, approve plans, list revisions, lock contracts.",
        "eval": "Ask agents the cases of their evaluation, and compare the answers with the assertions.",
        "appset": "Preview and list ApplicationSets, and approve their deletions.",
    },
    "Write manifests": {
        "build": "Print the manifests that a path renders to, as `kubectl kustomize` does.",
        "render": "Commit what a folder renders to in a branch, one file for each object, so that it can be reviewed.",
        "explain": "Show which file and line set a field of a rendered object, and the steps that changed it.",
        "set": "Change the one value in a file that sets a field of a rendered object, and prove it by rendering.",
        "adopt": "Take what was changed in the cluster back into Git: as a pull request, a branch, or a patch.",
        "images": "List the images that `spec.images` follows, with the newest tags of their registries.",
        "push": "Push the files of a folder in Git to an OCI registry, as a source of Applications.",
        "promote": "Propose the images and fields of the environment before, as `spec.promotion` says.",
        "preview": (
            "Show what a change in Git will do, without a cluster: objects, fields with lines, classes, effects."
        ),
        "rehearse": "Apply a change and its revert to a sandbox cluster, and list what is refused.",
    },
    "Install and run": {
        "demo": "Run everything on this machine: sandbox cluster, demo repository, controller and dashboard.",
        "install": "Print the manifests that install the controller, for `kubectl apply -f -`.",
        "bootstrap": "Install the controller from a Git repository that it then follows, or upgrade it by a commit.",
        "verify-install": "Compare an installation with what this version installs: objects, rights and image.",
        "upgrade": "Report whether a cluster can change to this version without losing a field.",
        "uninstall": "Remove the controller, its definitions and its rights; workloads stay.",
        "backup": (
            "Write history, audit, approvals and answers of reasoners into one file, also while the controller runs."
        ),
        "restore": "Restore a backup into the empty database of a controller that is stopped, of either kind.",
        "doctor": "Report what is missing on a cluster, a Git server or this machine, with the fix.",
        "run": "Run the controller and the dashboard against a cluster.",
        "webhook": "Validate Applications, ApplicationSets, Agents and MultiAgentSystems for the API server, over TLS.",
        "tenant": "Write the policies of teams that share the controller.",
        "users": "Manage the users who may sign in to the dashboard.",
        "sandbox": "Run a Kubernetes API server in this process, for demos and tests.",
        "mcp": "Serve read-only tools to language models over standard input and output.",
        "completion": "Print the completion script of a shell.",
    },
}
"""The commands by what people do, in the order of the help, each with the first sentence of its help."""
SUMMARIES: Final = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}
