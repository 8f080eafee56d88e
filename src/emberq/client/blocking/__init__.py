"""The blocking client: the asyncio one, driven on a thread of its own."""
