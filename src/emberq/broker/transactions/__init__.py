"""Transactions: half messages out of sight, how they end, and asking about those that did not."""
