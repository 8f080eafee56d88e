"""One file per conversation with the name server."""
