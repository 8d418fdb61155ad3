"""
Install hashed requirements into a virtual environment: ``python tools/install.py .venv FILE…``.

It prints a line every few seconds, and needs nothing but Python. uv does it in a seventh of pip's time (decision 0048):
it is taken from PATH, or installed into the environment by pip. Where it fails, pip installs everything.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

_EVERY = 2.5
"""Seconds between two lines while a command runs."""
_HASHED = ("--no-deps", "--require-hashes")
_UV = "requirements-uv.txt"
_CAN_TARGET = (22, 3)
"""The first version of pip that installs into the environment of another Python (``--python``)."""
_SETTINGS = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS"}
"""The settings of pip that uv does not read, and the variables in which it does."""


def main(arguments: Sequence[str]) -> int:
    """Install what the arguments name; return the exit code of the command that failed, else 0."""
    parser = argparse.ArgumentParser(description="Install hashed requirements into a virtual environment.")
    parser.add_argument("venv", type=Path)
    parser.add_argument("requirements", nargs="+")
    parser.add_argument("--project", action="store_true", help="install the project itself too, editable")
    options = parser.parse_args(arguments)
    python = str(options.venv / "bin" / "python")
    files = [part for file in options.requirements for part in ("-r", file)]
    steps = [(f"installing {' '.join(options.requirements)}", (*_HASHED, *files))]
    if options.project:
        steps.append(("installing gitsync", ("--no-deps", "--no-build-isolation", "-e", ".")))
    try:
        if not Path(python).exists():
            # without pip, whose installation takes longer than that of everything else
            _run(f"creating {options.venv}", (sys.executable, "-m", "venv", "--without-pip", str(options.venv)))
        install = _installer(options.venv, python)
        for text, step in steps:
            install(text, step)
    except subprocess.CalledProcessError as error:
        print(error.stderr.decode(errors="replace"), file=sys.stderr)
        return int(error.returncode)
    return 0


def _installer(venv: Path, python: str) -> Callable[[str, Sequence[str]], None]:
    """Return what installs a step: by uv, and by pip where that fails."""
    pip = _pip(python)
    add = (*pip, "install", "--quiet", "--no-compile")
    uv = shutil.which("uv") or str(venv / "bin" / "uv")
    environment = {**os.environ, **_settings_of(pip)}

    def install(text: str, step: Sequence[str]) -> None:
        if Path(uv).exists():
            try:
                return _run(text, (uv, "pip", "install", "--quiet", "--python", python, *step), environment)
            except subprocess.CalledProcessError as error:
                reason = (error.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"])[-1]
                print(f"uv failed ({reason.strip()}); {text} with pip", flush=True)
        return _run(text, (*add, *step))

    if not Path(uv).exists():
        try:
            _run("installing uv, which installs the rest", (*add, *_HASHED, "-r", _UV))
        except subprocess.CalledProcessError:
            print("uv cannot be installed here; pip takes some minutes instead", flush=True)
    return install


def _pip(python: str) -> tuple[str, ...]:
    """Return how pip is run for an environment: that of this Python, or one that is installed into it."""
    if find_spec("pip") is not None:
        major, minor, *_ = map(int, re.findall(r"\d+", version("pip")))
        if (major, minor) >= _CAN_TARGET:
            return (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    if subprocess.run((python, "-c", "import pip"), capture_output=True, check=False).returncode:
        _run("installing pip", (python, "-m", "ensurepip"))
    return (python, "-m", "pip", "--disable-pip-version-check")


def _settings_of(pip: Sequence[str]) -> dict[str, str]:
    """Return pip's settings for indexes and certificates as variables of uv, which reads none of pip's files."""
    listed = subprocess.run((*pip, "config", "list"), capture_output=True, text=True, check=False).stdout
    settings: dict[str, str] = {}
    # pip lists files first and variables last, of which the later count
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        settings[name.rpartition(".")[2]] = str(ast.literal_eval(value))
    # pip trusts the certificates of the system too, uv otherwise only its own
    variables = {"UV_SYSTEM_CERTS": "true"}
    variables |= {_SETTINGS[name]: ",".join(value.split()) for name, value in settings.items() if name in _SETTINGS}
    if "cert" in settings and "SSL_CERT_FILE" not in os.environ:
        variables["SSL_CERT_FILE"] = settings["cert"]
    return {name: value for name, value in variables.items() if name not in os.environ}


def _run(text: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    """Run a command and print what it does while it runs; raise CalledProcessError with what it printed."""
    began = time.monotonic()
    print(text[0].upper() + text[1:], flush=True)
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(_EVERY):
            print(f"  {text}: {time.monotonic() - began:.0f} s", flush=True)

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        subprocess.run(command, env=environment, check=True, capture_output=True)
    finally:
        ended.set()
        reporter.join()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
