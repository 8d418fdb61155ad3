"""
Write the compact schemas that ``gitsync.merge`` ships, from the recorded OpenAPI documents of an API server.

Usage: ``python tools/make_schemas.py CONFORMANCE_DIR``. What a document says for people (descriptions) is left
out; everything a server needs to serve discovery and OpenAPI v3 again stays. The recordings are the source:
run this again when they change, and never edit the result.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from more_schemas import documents as documents_to_add

TARGET = Path(__file__).resolve().parent.parent / "gitsync" / "kube" / "data"
PREFIX = "#/components/schemas/"


def main(conformance: Path) -> None:
    """Write ``kubernetes-VERSION.json.gz`` into the package."""
    schemas: dict[str, Any] = {}
    documents: dict[str, Any] = {}
    sources: dict[str, str] = {}
    version = ""
    for file in sorted((conformance / "apiserver" / "openapi").glob("*.json.gz")):
        raw = file.read_bytes()
        sources[file.name] = hashlib.sha256(raw).hexdigest()
        document = json.loads(gzip.decompress(raw))
        version = document["info"]["version"]
        components = {name: trim(schema) for name, schema in document["components"]["schemas"].items()}
        # DeleteOptions and WatchEvent list other group-version-kinds in each document: these are kept apart.
        own = {name: schema for name, schema in components.items() if schemas.setdefault(name, schema) != schema}
        documents[file.name.removesuffix(".json.gz").replace("_", "/")] = {
            "schemas": sorted(components),
            "own": own,
        }

    for path, more in documents_to_add().items():
        schemas.update(more)
        documents[path] = {"schemas": sorted(closure(set(more), schemas)), "own": {}}

    discovery = conformance / "apiserver" / "discovery.json"
    sources[discovery.name] = hashlib.sha256(discovery.read_bytes()).hexdigest()
    data = {
        "version": version,
        "sources": sources,
        "documents": documents,
        "resources": resources(json.loads(discovery.read_bytes())),
        "schemas": schemas,
    }
    text = json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
    target = TARGET / f"kubernetes-{version}.json.gz"
    target.write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{target.name}: {len(schemas)} types, {len(data['resources'])} resources, {len(text)} bytes")


def closure(names: set[str], schemas: dict[str, Any]) -> set[str]:
    """Return the names with all that they refer to."""
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += re.findall(f'"{PREFIX}([^"]+)"', json.dumps(schemas[name]))
    return reached


def trim(schema: Any) -> Any:
    """Return a schema without its descriptions; a property that is called description stays."""
    if isinstance(schema, list):
        return [trim(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: trim(member) for name, member in value.items()} if key == "properties" else trim(value)
        for key, value in schema.items()
        if key != "description"
    }


def resources(scenarios: list[Any]) -> list[Any]:
    """Return the resources of the recorded aggregated discovery, in the server's order."""
    (aggregated,) = (entry for entry in scenarios if entry["name"] == "discovery/aggregated")
    served = []
    for step in aggregated["steps"]:
        for group in step["expect"]["body"]["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                served += [
                    {"group": name, "version": version["version"], **resource} for resource in version["resources"]
                ]
    return served


if __name__ == "__main__":
    main(Path(sys.argv[1]))
