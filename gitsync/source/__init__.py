"""Git: commits in, reverts out. The only importer of GitPython; no work tree is ever made."""
