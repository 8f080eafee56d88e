"""Typed operations on a cluster, for tools: what the command line and a console are made of."""

from emberq.admin.admin import Admin
from emberq.admin.traces import MessageTrace

__all__ = ["Admin", "MessageTrace"]
