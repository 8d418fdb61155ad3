"""Sockets, TLS and HTTP/1.1 parsing of the sandbox server."""
