"""Adapters: one module a wire, each with its own quirks and none of another's."""
