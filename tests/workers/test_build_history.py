from __future__ import annotations

from gitsync.render.build import Build
from gitsync.workers.build_history import BuildHistory


def request(path: str, commit: str = "1") -> dict[str, str]:
    return {"git_dir": "repo", "path": path, "renderer": "Auto", "commit": commit}


def test_the_last_build_of_a_folder_is_kept() -> None:
    recent = BuildHistory()
    for commit in "12":
        recent.keep(request("a", commit), Build((), frozenset({commit})))
    last = recent.last(request("a", "3"))
    assert last is not None
    assert last.commit == "2"
    assert last.build.files_read == {"2"}
    assert recent.last(request("b")) is None
    assert recent.last({**request("a"), "renderer": "Plain"}) is None


def test_the_folder_that_was_not_built_for_longest_is_forgotten() -> None:
    recent = BuildHistory()
    recent.keep(request("first"), Build((), frozenset()))
    for number in range(63):
        recent.keep(request(str(number)), Build((), frozenset()))
    recent.keep(request("first"), Build((), frozenset()))
    recent.keep(request("more"), Build((), frozenset()))
    assert recent.last(request("0")) is None
    assert recent.last(request("1")) is not None
    assert recent.last(request("first")) is not None
