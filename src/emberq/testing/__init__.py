"""Public helpers for tests: real programs on free ports. Nothing in `emberq` imports them."""
