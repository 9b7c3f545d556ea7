"""The `agent-gym` command."""
