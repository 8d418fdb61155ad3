"""``python -m gitsync`` is the ``gitsync`` command."""

from gitsync.cli.main import main

if __name__ == "__main__":
    main()
