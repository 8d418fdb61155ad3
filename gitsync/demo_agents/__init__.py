"""The demo's agents: an A2A server, a local model and an MCP server, run as processes by the sandbox."""
