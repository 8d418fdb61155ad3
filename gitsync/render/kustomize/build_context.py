"""Build context: the state of one build that all its kustomizations share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gitsync.errors import InvalidInput
from gitsync.render.build_cache import CachedSteps
from gitsync.render.errors import ErrorCollector
from gitsync.render.kustomize.kustomization import Kustomization
from gitsync.render.kustomize.loader import Loader
from gitsync.render.patch.merge_keys import BUILT_IN, MergeSchema, OpenApiSchema
from gitsync.render.resources.scopes import Scopes
from gitsync.render.yaml.reader import read_all

if TYPE_CHECKING:  # few builds record provenance or have a chart
    from gitsync.objects.charts import Helm
    from gitsync.render.provenance.recorder import Recorder

FOLDERS: Final = 10_000
"""How many folders one build may enter; a few that name each other twice make many."""


class BuildContext:
    """The state of one build, shared by all its kustomizations."""

    def __init__(
        self,
        kustomization: Kustomization,
        recorder: Recorder | None,
        errors: ErrorCollector,
        steps: CachedSteps,
        helm: Helm | None = None,
    ) -> None:
        self.recorder = recorder
        self.helm = helm
        self.outer_namespace = ""
        """The namespace of the nearest kustomization around the present one, for charts without one of their own."""
        self.errors = errors
        self.steps = steps
        self.scopes = Scopes()
        self.schema: MergeSchema = BUILT_IN
        self.warnings: list[str] = []
        self.build_metadata = frozenset(kustomization.get("buildMetadata"))
        if self.build_metadata:  # the cache does not hold where a resource comes from
            self.steps.forget()
        self.uses_built_in = False
        """Whether the built-in schema was used, which then stays a fallback for a later one."""
        self._has_schema = False
        self._entered = 0

    def enter(self, location: str) -> None:
        """Count a base or a component that is built; refuse too many."""
        self._entered += 1
        if self._entered > FOLDERS:
            raise InvalidInput(
                f"the build enters more folders than the limit of {FOLDERS}",
                location=location,
                hint="name each base and component fewer times",
            )

    def use_schema(self, loader: Loader, kustomization: Kustomization) -> None:
        """Take the schema of an ``openapi`` field; the first of a build holds."""
        choice = kustomization.fields.get("openapi") or {}
        path = choice.get("path")
        version = choice.get("version")
        where = kustomization.where("openapi")
        text = loader.read(path, where) if path is not None else None
        if self._has_schema or (path is None and not version):
            return
        self._has_schema = True
        if text is None:
            if version != "v1.21.2":
                raise InvalidInput(
                    f"the OpenAPI version {version} is not built in", location=where, hint="use v1.21.2, or a path"
                )
            return
        if version:
            raise InvalidInput("openapi names a version and a path", location=where, hint="keep one of them")
        documents = read_all(text, path or "")
        if not documents or not isinstance(documents[0], dict):
            raise InvalidInput("the OpenAPI file is not a mapping", location=str(path), hint="name an OpenAPI v2 file")
        schema = OpenApiSchema(documents[0], BUILT_IN if self.uses_built_in else None)
        self.schema = schema
        self.scopes.learn(schema.scopes())
        self.steps.forget()
