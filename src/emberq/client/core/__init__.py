"""What a client decides, without sockets, clocks or tasks."""
