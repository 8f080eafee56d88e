"""The wire with I/O: connections, the server that accepts them and the client that makes them."""
