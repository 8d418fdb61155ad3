"""The admission webhook, which answers for the API server by the rules of `gitsync build --check`."""
