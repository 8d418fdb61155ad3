"""
Write the column descriptions of the sandbox's tables that quote the documentation of API fields.

Usage: ``python tools/make_column_docs.py CONFORMANCE_DIR``. The source is the recorded OpenAPI documents; run this
again when a column refers to another field, and do not edit the result. A real server quotes SwaggerDoc of the Go
type, which lacks the sentence that the OpenAPI document adds to ``roleRef``.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from gitsync.sandbox.printers.columns import documented_fields

TARGET = Path(__file__).resolve().parent.parent / "gitsync" / "sandbox" / "data" / "column_docs.json"


def _described(text: str, member: str) -> str:
    text = text.partition("\n\nPossible enum values")[0]
    return text.removesuffix(" This field is immutable.") if member == "roleRef" else text


def main(conformance: Path) -> None:
    """Write the documentation of every field that a column names."""
    wanted = documented_fields()
    descriptions: dict[str, str] = {}
    for file in sorted((conformance / "apiserver" / "openapi").glob("*.json.gz")):
        document = json.loads(gzip.decompress(file.read_bytes()))
        for name, schema in document["components"]["schemas"].items():
            short = ".".join(name.split(".")[-3:])
            for member, value in (schema.get("properties") or {}).items():
                if f"{short}.{member}" in wanted:
                    descriptions[f"{short}.{member}"] = _described(value["description"], member)
    for missing in sorted(wanted - descriptions.keys()):
        print(f"no documentation for {missing}", file=sys.stderr)
    TARGET.write_text(json.dumps(descriptions, indent=0, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
