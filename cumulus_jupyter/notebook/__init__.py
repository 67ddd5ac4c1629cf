"""Notebooks as documents: pure cell operations and the transports that apply them."""
