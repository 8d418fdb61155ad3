"""Git: commits in, reverts out. The only importer of GitPython; no work tree is ever made."""

from __future__ import annotations

import os

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # git may be missing at import: ``require_git`` reports that
