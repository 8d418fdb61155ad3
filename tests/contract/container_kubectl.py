"""
Act as kubectl where no kubelet runs containers: what needs one acts on the controller of a test beside the cluster.

Commands in the container run with its environment and data folder; process 1 there is the controller. All else is
passed on to kubectl, which also has to find the object that is named. ``GITSYNC_TEST_CONTAINER`` describes both.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

VARIABLE = "GITSYNC_TEST_CONTAINER"


@dataclass(frozen=True, slots=True)
class Container:
    """The controller of a test as the container that a Deployment would run, and the real kubectl."""

    kubectl: str
    pid: int
    port: int
    data: str
    log: str
    environment: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(asdict(self))

    def inside(self, word: str) -> str:
        """Return a word of a command with what it names in the container as it is here."""
        return re.sub(r"\b(kill -\w+) 1\b", rf"\1 {self.pid}", re.sub(r"(?<![\w/])/data\b", self.data, word))


def main(arguments: list[str]) -> int:
    container = Container(**json.loads(os.environ[VARIABLE]))
    match arguments:
        case ["-n", namespace, "exec", target, "--", *command]:
            _require(container, namespace, target)
            words = [container.inside(word) for word in command]
            return subprocess.run(words, env=container.environment, check=False).returncode
        case ["-n", namespace, "logs", target, "--previous"]:
            _require(container, namespace, target)
            print(Path(container.log).read_text(encoding="utf-8"))
            return 0
        case ["-n", _, "cp", source, destination]:
            pod, _, path = source.partition(":")
            namespace, _, name = pod.partition("/")
            _require(container, namespace, f"pod/{name}")
            return _copy(container.inside(path), Path(destination))
        case ["-n", namespace, "port-forward", target, port]:
            _require(container, namespace, target)
            ports = "{.spec.template.spec.containers[*].ports[*].containerPort}"
            query = [container.kubectl, "-n", namespace, "get", target, "-o", f"jsonpath={ports}"]
            listening = subprocess.run(query, check=True, capture_output=True, text=True).stdout.split()
            assert port in listening, f"the container does not listen on {port}"
            print(f"Forwarding from 127.0.0.1:{container.port} -> {port}", flush=True)
            while True:
                time.sleep(60)
    # what a kubelet does may not be answered by the API server alone, and hides a line that is written otherwise
    assert not {"exec", "logs", "cp", "port-forward", "attach"} & set(arguments), arguments
    return subprocess.run([container.kubectl, *arguments], check=False).returncode


def _require(container: Container, namespace: str, target: str) -> None:
    subprocess.run([container.kubectl, "-n", namespace, "get", target], check=True, stdout=subprocess.DEVNULL)


def _copy(source: str, destination: Path) -> int:
    """Copy a file as kubectl does: by the tar of the container, under the name of the destination."""
    packed = subprocess.run(["tar", "cf", "-", source], check=True, capture_output=True).stdout
    unpacked = subprocess.run(["tar", "xOf", "-"], check=True, input=packed, capture_output=True).stdout
    destination.write_bytes(unpacked)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
