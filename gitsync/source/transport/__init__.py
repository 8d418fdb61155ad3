"""Queries and transfers from and to Git servers: sign-in, SSH, HTTP, quarantine of packs, and errors in plain words."""
