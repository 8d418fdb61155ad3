"""
``python -m gitsync`` is the ``gitsync`` command.

``gitsync build PATH...`` goes past the parser of options, which takes longer to load than hundreds of resources take to
render: as part of a shell loop or a hook, that is all one waits for.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line; usage errors leave with exit code 2."""
    match sys.argv[1:]:
        case ["build", *paths] if paths and not any(path.startswith("-") for path in paths):
            gc.disable()  # builds make many objects and hardly a cycle, and then the process ends
            from gitsync.cli.commands.build import BuildOptions, build
            from gitsync.cli.errors import exit_on_error
            from gitsync.cli.output import BuildFormat

            try:
                exit_on_error(build)(paths, BuildOptions(), BuildFormat.YAML, check=False)
            except SystemExit as end:
                os._exit(int(end.code or 0))  # all is said, and taking the interpreter apart would only take time
        case _:
            from gitsync.cli.main import main as run

            run()


if __name__ == "__main__":
    main()
