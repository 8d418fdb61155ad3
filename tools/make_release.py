"""
Release a version: version and changelog in a tagged commit, then everything that users install.

Usage: ``python -m tools.make_release VERSION REGISTRY [IMAGE_ARCHIVE]``, in a clean checkout. ``dist/VERSION`` gets the
wheel, the manifests, the Helm chart, the bill of materials, the notes and their checksums; the registry gets image and
chart, with the version as their tag. Without a container engine, an archive of the image that
was built elsewhere is pushed. A second commit starts the next version, so that no other one calls itself by this.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION_FILE = "gitsync/__init__.py"
KUSTOMIZATION = "manifests/gitsync/kustomization.yaml"
CHANGELOG = "CHANGELOG.md"
_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_UNRELEASED = "## Unreleased\n"


def released(changelog: str, version: str, day: date) -> str:
    """Return the changelog with its unreleased lines under a version; raise ValueError where there are none."""
    head, _, rest = changelog.partition(_UNRELEASED)
    lines, heading, older = rest.partition("\n## ")
    if not lines.strip():
        raise ValueError(f"{CHANGELOG}: nothing is under Unreleased")
    if re.search(rf"(?m)^## {re.escape(version)} ", changelog):
        raise ValueError(f"{CHANGELOG}: {version} is released already")
    return f"{head}{_UNRELEASED}\n## {version} \N{EN DASH} {day.isoformat()}\n{lines}{heading}{older}"


def notes(changelog: str, version: str) -> str:
    """Return the lines of a version."""
    _, _, rest = changelog.partition(f"\n## {version} ")
    _, _, lines = rest.partition("\n")
    return lines.partition("\n## ")[0].strip() + "\n"


def next_version(version: str) -> str:
    """Return the development version that follows a release."""
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}.0.dev0"


def with_version(text: str, version: str) -> str:
    """Return the text of the file of the version, or of the kustomization, with another version."""
    return re.sub(r'(__version__ = "|newTag: )[^"\n]+', rf"\g<1>{version}", text)


def _run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    return done.stdout


def _commit(version: str, subject: str) -> None:
    """Commit a version in all places that have it."""
    for name in (VERSION_FILE, KUSTOMIZATION):
        path = ROOT / name
        path.write_text(with_version(path.read_text(encoding="utf-8"), version), encoding="utf-8")
    # the annotation of the definitions
    _run(sys.executable, "-m", "tools.make_reference")
    _run("git", "commit", "--quiet", "--all", "--message", subject)


def _build(version: str, registry: str) -> Path:
    """Write what users download, and return its folder."""
    folder = ROOT / "dist" / version
    folder.mkdir(parents=True, exist_ok=True)
    python = sys.executable
    image = f"{registry}/gitsync:{version}"
    _run(python, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    (folder / "install.yaml").write_text(_run(python, "-m", "gitsync", "install", "--image", image), encoding="utf-8")
    (folder / "crds.yaml").write_text(_run(python, "-m", "gitsync", "install", "--crds"), encoding="utf-8")
    _run(python, "-m", "tools.make_chart", str(folder / "chart"), image)
    _run("helm", "package", str(folder / "chart"), "--destination", str(folder))
    bill = [str(Path(python).with_name("cyclonedx-py")), "requirements", "requirements-image.txt"]
    options = ["--pyproject", "pyproject.toml", "--output-reproducible", "--of", "JSON"]
    _run(*bill, *options, "-o", str(folder / "sbom.json"))
    changelog = (ROOT / CHANGELOG).read_text(encoding="utf-8")
    (folder / "notes.md").write_text(notes(changelog, version), encoding="utf-8")
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    return folder


def _publish(version: str, registry: str, folder: Path, archive: str) -> None:
    """Push image, chart and manifests; on loopback, registries speak plain HTTP."""
    is_local = registry.startswith(("127.0.0.1:", "localhost:"))
    image = f"{registry}/gitsync:{version}"
    if archive:
        tls = ["--dest-tls-verify=false"] if is_local else []
        _run("skopeo", "copy", *tls, f"oci-archive:{archive}", f"docker://{image}")
    else:
        _run("docker", "build", "--tag", image, ".")
        _run("docker", "push", image)
    plain = ["--plain-http"] if is_local else []
    _run("helm", "push", *plain, str(next(folder.glob("gitsync-*.tgz"))), f"oci://{registry}/charts")


def main(version: str, registry: str, archive: str = "") -> None:
    """Release a version; raise SystemExit, before anything is changed, where it cannot be one."""
    changelog = ROOT / CHANGELOG
    try:
        text = released(changelog.read_text(encoding="utf-8"), version, datetime.now(UTC).date())
    except ValueError as error:
        raise SystemExit(str(error)) from None
    if not _RELEASE.fullmatch(version) or not registry:
        raise SystemExit("make release VERSION=0.5.0 REGISTRY=registry.example.com/team")
    if _run("git", "status", "--porcelain"):
        raise SystemExit("the checkout has changes: commit them first")
    changelog.write_text(text, encoding="utf-8")
    _commit(version, f"Release {version}")
    _run("git", "tag", "--annotate", f"v{version}", "--message", f"gitsync {version}")
    folder = _build(version, registry)
    _publish(version, registry, folder, archive)
    _commit(next_version(version), f"Start {next_version(version)}")
    print(f"released {version}: {registry}/gitsync:{version}, oci://{registry}/charts/gitsync, {folder}")
    print(f"push it: git push origin HEAD v{version}")


if __name__ == "__main__":
    main(*sys.argv[1:])
