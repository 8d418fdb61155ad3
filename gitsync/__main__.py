"""
``python -m gitsync`` is the ``gitsync`` command.

``gitsync build PATH...`` does not load the option parser, which takes longer to import than hundreds of resources
take to render: in a shell loop or a hook, start-up is most of the duration.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line; usage errors exit with code 2."""
    match sys.argv[1:]:
        case ["build", *paths] if paths and not any(path.startswith("-") for path in paths):
            gc.disable()  # builds create many objects and hardly a cycle, and then the process ends
            from gitsync.cli.builds import BuildOptions, print_builds
            from gitsync.cli.errors import exit_on_error
            from gitsync.cli.output import BuildFormat

            try:
                exit_on_error(print_builds)(paths, BuildOptions(), BuildFormat.YAML, check=False)
            except SystemExit as end:
                os._exit(int(end.code or 0))  # everything is flushed; finalizing the interpreter would only take time
        case _:
            from gitsync.cli.main import main as run

            run()


if __name__ == "__main__":
    main()
