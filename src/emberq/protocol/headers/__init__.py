"""Typed headers, one module per conversation; `index` finds them by request code."""
