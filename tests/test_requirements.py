"""The requirements files are complete: `make` installs exactly what they list, and pip resolves nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import install

ROOT = Path(__file__).parent.parent
INSTALLERS = ("tools/install.py", "tools/make_image_root.sh")


@pytest.mark.parametrize("name", INSTALLERS)
def test_hashed_requirements_are_installed_without_resolving(name: str) -> None:
    """With hashes, pip before 24 refuses a package with extras as not pinned once a newer version is published."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if "--require-hashes" in line]

    assert lines
    assert [line for line in lines if "--no-deps" not in line] == []


def test_the_installed_environment_lacks_no_dependency() -> None:
    installer = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    uv = (installer, "pip", "check", "--python", sys.executable)
    command = uv if Path(installer).exists() else (sys.executable, "-m", "pip", "check")
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", sorted(ROOT.glob("requirements*.txt")), ids=lambda path: path.name)
def test_each_requirement_is_pinned_and_hashed(path: Path) -> None:
    lines = path.read_text().replace("\\\n", " ").splitlines()
    requirements = [line for line in lines if line.strip() and not line.startswith("#")]

    assert requirements
    assert [line[:60] for line in requirements if not re.match(r"[\w.\[\]-]+==\S+ .*--hash=sha256:", line)] == []


@pytest.mark.parametrize("extra", ["postgresql", "notify", "oidc", "aws", "azure", "gcp", "vault"])
def test_the_image_has_the_extras_of_its_settings_as_tested(extra: str) -> None:
    """The image has no pip: a setting that needs a missing extra could not be used at all."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {name_of(line) for line in project["project"]["optional-dependencies"][extra]}
    image = pins("requirements-image.txt")
    assert wanted <= image.keys()
    tested = pins("requirements-test.txt") | pins("requirements.txt")
    assert {name: image[name] for name in wanted} == {name: tested[name] for name in wanted}


def name_of(requirement: str) -> str:
    """Return the name of a package, as indexes normalize it, without its extras."""
    return re.split(r"[\[<>=]", requirement)[0].lower()


def pins(file: str) -> dict[str, str]:
    """Return the version of each package in a requirements file."""
    lines = (ROOT / file).read_text().splitlines()
    pairs = (line.split()[0].split("==") for line in lines if "==" in line and not line.startswith(" "))
    return {name_of(name): version for name, version in pairs}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on PATH for programs, beside an environment whose pip writes down its arguments."""
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").touch()
    program(
        tmp_path / "pip", f'echo pip "$@" >> {tmp_path}/log\n[ "$1" != config ] || cat {tmp_path}/settings 2>/dev/null'
    )
    monkeypatch.setattr(install, "_pip", lambda python: (str(tmp_path / "pip"),))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def program(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def installed(folder: Path) -> list[str]:
    """Install a file, and return which program installed what."""
    assert install.main([str(folder / "venv"), "requirements.txt"]) == 0
    lines = (folder / "log").read_text().splitlines()
    return [line for line in lines if " install " in line and "requirements.txt" in line]


def test_uv_installs_with_the_indexes_and_certificates_of_pip(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = programs.parent
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    (folder / "settings").write_text(
        ":env:.index-url='https://ours.example/simple'\nglobal.index-url='https://other.example/simple'\n"
        "global.cert='/etc/ca.pem'\nglobal.find-links='/a /b'\nglobal.quiet='1'\n"
    )
    program(programs / "uv", f'echo uv "$@" $UV_DEFAULT_INDEX $SSL_CERT_FILE $UV_FIND_LINKS >> {folder}/log')
    (line,) = installed(folder)
    assert line.startswith("uv pip install")
    assert "--no-deps --require-hashes -r requirements.txt" in line
    assert line.endswith("https://ours.example/simple /etc/ca.pem /a,/b")


def test_pip_installs_where_uv_fails(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(programs / "uv", "echo no such index >&2; exit 2")
    (line,) = installed(programs.parent)
    assert line.startswith("pip install")
    assert "--no-deps --require-hashes -r requirements.txt" in line
    assert "uv failed (no such index)" in capsys.readouterr().out


def test_uv_is_installed_where_it_is_missing(programs: Path) -> None:
    folder = programs.parent
    (line,) = installed(folder)
    assert line.startswith("pip install"), "it could not be installed, so pip continues"
    assert "-r requirements-uv.txt" in (folder / "log").read_text()


def test_what_fails_is_printed_with_its_exit_code(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program(programs.parent / "pip", "echo hash mismatch >&2; exit 3")
    assert install.main([str(programs.parent / "venv"), "requirements.txt"]) == 3
    assert "hash mismatch" in capfd.readouterr().err
