"""Measures EmberQ, beside the official software where it can be started."""
