"""What the API answers; names are camelCase, as in the custom resource."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gitsync.services.updates import UpdateKind
from gitsync.services.workloads import WorkloadAction

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=500, description="Items of one page.")]
Start = Annotated[int, Query(ge=0, le=10_000_000, description="Items before this page.")]


class ApiModel(BaseModel):
    """A part of an answer."""

    # populate_by_name: code names members in snake case; their camelCase is for clients only
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)


class PageModel(ApiModel, Generic[T]):
    """One page of a list; ``next`` is the URL of the following page, empty at the end."""

    items: list[T]
    # not counted for the timeline, which would have to read all of the history
    total: int | None = Field(None, description="How many items match; null where they are not counted.")
    next: str = ""


class VerdictModel(ApiModel):
    """A state of an application, its reason, and since when it holds (RFC 3339; empty when unknown)."""

    state: str
    reason: str
    since: str


class ApplicationModel(ApiModel):
    """An application: its state with reason and age, and what Git and cluster have."""

    namespace: str
    name: str
    state: str
    reason: str
    since: str = Field(description="When the state began (RFC 3339); empty when unknown.")
    is_suspended: bool
    sync: str
    health: str
    phase: str
    commit: str
    message: str
    author: str
    applied: str
    objects: str = Field(description="Objects in sync of all, such as 3/4.")
    also: list[VerdictModel] = Field(description="What is wrong besides ``state``, worst first.")


class ApplicationDetail(ApplicationModel):
    """An application with the status of its custom resource."""

    status: dict[str, Any]


class ApplicationSetModel(ApiModel):
    """An ApplicationSet: its state with reason and age, and counts of its Applications."""

    namespace: str
    name: str
    state: str = Field(
        description="The reason of Ready, such as AwaitingApproval; FetchFailed during an outage of Git."
    )
    reason: str
    since: str = Field(description="When the state began (RFC 3339); empty when unknown.")
    applications: int = Field(description="As many as its elements yield.")
    current: int
    failed: int
    waiting: int = Field(description="Those whose deletion waits for an approval.")


class ApplicationSetDetail(ApplicationSetModel):
    """An ApplicationSet with the status of its custom resource."""

    status: dict[str, Any]


class StageModel(ApiModel):
    """What one stage of the reconciles of an application cost."""

    seconds: float
    cpu_seconds: float


class CostModel(ApiModel):
    """What the reconciles of an application cost since the controller process started."""

    namespace: str
    name: str
    objects: int
    reconciles: int = Field(description="Full ones, of all objects.")
    partial: int = Field(description="Those of changed objects only.")
    api_requests: int = Field(description="Requests to the API server, without watches.")
    seconds: float
    cpu_seconds: float = Field(description="Of the reconciling thread; renders, Git and parallel writes are not in it.")
    slowest: str = Field(description="The stage that took longest; empty without a reconcile.")
    stages: dict[str, StageModel]
    elsewhere: bool = Field(description="Whether another replica works on it, which alone knows what it costs.")


class ObjectModel(ApiModel):
    """An object of an application."""

    application: str
    group: str
    kind: str
    namespace: str
    name: str
    sync: str
    health: str
    reason: str
    action: str = Field(description="What a sync would do with it.")
    risk: str


class AgentModel(ApiModel):
    """An agent: an Agent, one of another platform, or a workload that is one by rule."""

    application: str
    kind: str
    namespace: str
    name: str
    system: str = Field(description="The MultiAgentSystem that it is a member of.")
    model: str
    serving: str = Field(description="The revision that gets the requests.")
    candidate: str = Field(description="The revision that is to replace it: it is tried, or waits for that.")
    failed: str = Field(description="The last revision that was given up or whose checks failed.")
    phase: str
    ready: str
    reason: str
    traffic: str = Field(description="The share of the requests that the candidate gets.")
    evaluation: str = Field(description="The verdict on the revision that serves, and its cases that passed.")
    candidate_evaluation: str = Field(description="The verdict on the candidate.")
    failed_evaluation: str = Field(description="The verdict on the revision that failed last.")
    tools: tuple[str, ...]
    approvals: tuple[str, ...] = Field(description="The tools that need a person's approval.")
    environment: str
    endpoint: str = Field(description="The address of the model service.")
    prompt: str = Field(description="A digest of the texts of the prompts, equal for equal texts.")
    tokens: int | None = Field(description="The tokens of the last day, where the operator's Prometheus has them.")
    leader: str = Field(description="The replica that leads, where the agent has a leader election.")
    added: str = Field(description="Who added settings that Git does not declare, such as a model.")


class EnvironmentModel(ApiModel):
    """An agent in one environment, and which of model, endpoint, prompt and tools are not as in the one before."""

    agent: str = Field(description="The name without that of the environment.")
    environment: str
    application: str
    namespace: str
    name: str
    model: str
    endpoint: str
    prompt: str
    tools: tuple[str, ...]
    before: str = Field(description="The environment that it is compared with, empty for the first.")
    differs: tuple[str, ...]


class PromptModel(ApiModel):
    """A version of a prompt of an agent."""

    key: str = Field(description="Names the version, also in the URL of the page that compares two.")
    label: str = Field(description="The prompt and its place: an environment, a commit, a kept revision or a sync.")
    text: str


class FieldModel(ApiModel):
    """A field that differs; an empty value is absent. Values of Secrets are masked."""

    path: str
    kind: str
    live: str
    desired: str
    owner: str = Field(description="The field manager that set it in the cluster.")
    operation: str
    time: str
    first_seen: str = ""
    where: str = Field("", description="The file and line in Git that set it.")
    commit: str = Field("", description="The commit that wrote this line.")
    author: str = Field("", description="Who wrote that commit.")


class ObjectDiff(ObjectModel):
    """An object with what differs; ``added`` are fields that others set and Git does not declare."""

    fields: list[FieldModel]
    added: list[FieldModel]
    drift_risk: str = ""
    drift_reason: str = ""
    running: list[str] = Field(default_factory=list, description="What its Pods run otherwise than it declares.")


class RelationModel(ApiModel):
    """Another object, and what it is to this one: uses, selects, used by."""

    relation: str
    object: str
    ref: str


class ObjectDetail(ObjectDiff):
    """An object with both manifests and its relations."""

    conditions: list[dict[str, Any]]
    relations: list[RelationModel]
    live_manifest: dict[str, Any] | None
    git_manifest: dict[str, Any] | None


class EventModel(ApiModel):
    """A Kubernetes Event."""

    type: str
    reason: str
    message: str
    count: int
    last: str
    source: str


class NodeModel(ApiModel):
    """An object in the tree of an application, or a group of one kind."""

    kind: str
    name: str
    ref: str
    health: str
    sync: str
    reason: str
    count: int = 0
    # pydantic copies a mutable default for each instance
    children: list[NodeModel] = []


class ResultModel(ApiModel):
    """What became of a change in one application."""

    application: str
    state: str
    text: str
    url: str


class ChangeModel(ApiModel):
    """An entry of the timeline."""

    time: datetime
    kind: str
    title: str
    people: list[str]
    commit: str
    reason: str
    results: list[ResultModel]


class DriftModel(ApiModel):
    """An object that was changed in the cluster."""

    application: str
    object: str
    ref: str
    risk: str
    reason: str
    action: str
    managers: list[str]
    persons: list[str] = Field(description="Who did it, where the API server's audit webhook reported that.")
    since: str
    fields: list[FieldModel]


class PodModel(ApiModel):
    """A Pod that runs otherwise than its workload declares; ``kind`` is one of image, stale, modified."""

    application: str
    object: str
    ref: str
    pod: str
    kind: str
    message: str
    since: str


class PastDriftModel(ApiModel):
    """A field that self-heal corrected, by which manager it was changed, and how often; without a path, a deletion."""

    application: str
    object: str
    path: str
    manager: str
    times: int
    last: datetime
    repaired_seconds: float | None


class PastFieldModel(ApiModel):
    """A field that others changed or what a Pod ran otherwise, and what ended it: self-heal, a sync, or others."""

    application: str
    object: str
    ref: str
    pod: str = Field(description="The Pod of the object that ran otherwise than declared; empty for a field.")
    path: str = Field(description="Of a Pod: image, stale or modified. Empty where the object was deleted.")
    from_: Any = Field(alias="from", serialization_alias="from", description="What Git declares.")
    to: Any
    manager: str
    person: str = Field(description="Who did it, where the API server's audit webhook reported that; else empty.")
    edited: datetime | None
    detected: datetime
    ended: datetime
    by: str
    seconds: float


class DriftPage(ApiModel):
    """The drift of now, and what was corrected in the latest syncs."""

    items: list[DriftModel]
    total: int
    next: str = ""
    corrected: list[PastDriftModel]
    pods: list[PodModel] = Field(default_factory=list, description="Pods that run otherwise than declared.")


class OriginModel(ApiModel):
    """The line that sets a field, an empty one for the object itself, and the commit that wrote it, if known."""

    field: str
    where: str = Field(description="The file and line in Git.")
    commit: str = ""
    author: str = ""
    email: str = ""
    subject: str = ""
    time: str = ""


class StepModel(ApiModel):
    """
    A step of a plan or of a sync; ``created`` and ``deleted`` are whole objects.

    ``path`` names it in a review of some steps, ``needs`` are the paths of those that it directly depends on.
    """

    object: str
    path: str = ""
    needs: list[str] = Field(default_factory=list)
    action: str
    risk: str
    rule: str = ""
    reason: str
    follows: str = ""
    outcome: str = ""
    differences: list[dict[str, Any]]
    origins: list[OriginModel] = Field(default_factory=list)
    created: dict[str, Any] | None = None
    deleted: dict[str, Any] | None = None


class PlanModel(ApiModel):
    """The plan of an application, and why it is held."""

    application: str
    digest: str
    revision: str
    risk: str
    explanation: str
    held: list[str]
    steps: list[StepModel]


class SettingModel(ApiModel):
    """A setting of the effective policy; ``source`` names the policy or the Application that decided it."""

    name: str
    value: str
    source: str


class ViolationModel(ApiModel):
    """What an application does that its policy does not allow, or lacks."""

    application: str
    reason: str


class PolicySummaryModel(ApiModel):
    """A tenant or policy: what it allows and requires, its applications, and what these lack."""

    kind: str
    name: str
    settings: list[SettingModel]
    applications: list[str]
    violations: list[ViolationModel]


class PolicyModel(ApiModel):
    """The effective policy of an application; ``problem`` is why newer policy files are not used."""

    application: str
    settings: list[SettingModel]
    problem: str = ""


class SyncModel(ApiModel):
    """A sync of the history."""

    id: int
    application: str
    commit: str
    author: str
    message: str
    trigger: str
    initiator: str
    approver: str
    started: datetime
    duration_ms: int
    outcome: str
    risk: str
    explanation: str
    problem: str
    steps: list[StepModel] = []


class ReviewRequest(ApiModel):
    """
    A review of a plan; ``by`` counts only where no sign-in proves the name.

    An approval with ``steps`` (the ``path`` of each) is limited to these; they have to include what they need.
    """

    digest: str = Field(max_length=100)
    verdict: str = Field(pattern="^(approve|reject)$")
    reason: str = Field("", max_length=1000)
    by: str = Field("", max_length=100)
    overrule: bool = False
    steps: list[str] = Field(default_factory=list, max_length=10_000)


class ReviewResult(ApiModel):
    """A review that was taken; ``until`` is when an approval expires."""

    application: str
    digest: str
    by: str
    until: str = ""


class ActionRequest(ApiModel):
    """A request of a user; ``by`` counts only where no sign-in proves the name."""

    reason: str = Field("", max_length=1000)
    by: str = Field("", max_length=100)


class UpdateRequest(ActionRequest):
    """A request to propose an update to Git, exactly as its digest names it."""

    kind: UpdateKind = Field(description="`promotion`, or `images`.")
    digest: str = Field(min_length=1, max_length=64, description="The `digest` of the update as it was read.")


class RevertDriftRequest(ActionRequest):
    """A request to revert drift, of the objects with these paths, or of all that others changed without any."""

    objects: list[str] = Field(default_factory=list, max_length=100)


class SyncRequest(ActionRequest):
    """
    A request for a sync: of all objects, or of those that are named, by the `ref` of each.

    The options are for named objects alone. A dry run needs neither a name nor a reason.
    """

    objects: list[str] = Field(default_factory=list, max_length=100)
    dry_run: bool = Field(False, description="Ask the API server what it would do, and write nothing.")
    prune: bool = Field(False, description="Also delete named objects that Git does not declare any more.")
    replace: bool = Field(False, description="Delete and create again what cannot be changed in place.")

    @property
    def is_chosen(self) -> bool:
        """Whether it is for some objects: an option without any is refused, and never a sync of all."""
        return bool(self.objects) or self.dry_run or self.prune or self.replace


class WorkloadActionRequest(ActionRequest):
    """A request to restart a workload, or to delete a Pod."""

    action: WorkloadAction
    object: str = Field(max_length=1200, description="The `ref` of the object.")


class HoldRequest(ActionRequest):
    """A request to leave a field of the object with this path as it is for some minutes."""

    object: str = Field(max_length=1200)
    field: str = Field(max_length=500, description="Such as `.spec.replicas`, as differences name it.")
    minutes: int = Field(60, ge=1, le=1440)


class EndHoldRequest(ActionRequest):
    """A request to end the hold of a field of the object with this path now."""

    object: str = Field(max_length=1200)
    field: str = Field(max_length=500)


class ActionResult(ApiModel):
    """A request that was taken."""

    application: str
    action: str
    by: str


class SyncResult(ActionResult):
    """
    A sync that was requested, or the answers to a dry run, of which each step has an outcome and its reason.

    The status repeats ``request``, which only a sync of some objects has, in `requestedSync` when it has ended.
    """

    request: str = ""
    steps: list[StepModel] = Field(default_factory=list)


class UpdateResult(ActionResult):
    """An update that was pushed to a branch; the pull request is empty where the Application names no host."""

    branch: str
    url: str
    commit: str


class ProposalModel(ApiModel):
    """A pull request, or a branch that is previewed as one, and what it will do."""

    key: str
    name: str = Field(description="`#12` for a pull request, else the name of the branch.")
    title: str
    author: str
    repository: str
    base_branch: str
    head_branch: str
    head: str
    url: str = Field(description="Its page at the Git host; empty for a branch.")
    is_fork: bool
    is_draft: bool
    state: str = Field(description="Valid, or Invalid where it cannot be merged, built or applied.")
    risk: str = Field(description="Highest class of its steps; empty where that is not known.")
    problem: str
    objects: int = Field(description="Objects that change.")
    folders: list[str] = Field(description="Deployed folders that change.")
    applications: list[str] = Field(description="Applications whose objects change.")
    updated: datetime


class UpdateValueModel(ApiModel):
    """A value that an update takes, and the line that it is written to."""

    object: str
    field: str
    old: str
    new: str
    where: str


class UpdateModel(ApiModel):
    """Images of registries, or values of another environment, that can be taken into an application."""

    application: str
    kind: str = Field(description="`promotion`, or `images`.")
    mode: str = Field(description="What the controller does by itself: Manual, PullRequest or Commit.")
    state: str = Field(description="Current, Waiting, Ready, Proposed, Refused or Failed.")
    problem: str = Field(description="Why nothing is taken, or not all.")
    origin: str = Field(description="The application, and its commit, that values are taken from.")
    chain: list[str] = Field(description="Applications in the order of promotion, this one last.")
    risk: str = Field(description="Class of what it changes; empty where nothing can be taken.")
    values: list[UpdateValueModel]
    refused: list[str] = Field(description="Values that are not taken, with the reason.")
    moved: list[str] = Field(description="Declared tags whose digest in the registry is not the one that runs.")
    digest: str = Field(description="What a request has to name; empty where nothing can be proposed.")
    branch: str
    url: str = Field(description="The pull request at the Git host; empty where there is none.")
    commit: str
    by: str = Field(description="Who proposed it last.")
    proposed: datetime | None
    checked: datetime


class ProposalDetail(ProposalModel):
    """A pull request with its preview, in the schema of `gitsync preview -o schema`."""

    base: str = Field(description="Commit that it was merged into for the preview.")
    report: dict[str, Any] | None
