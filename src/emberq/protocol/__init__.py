"""The wire without I/O: frames, commands, codes, typed headers and bodies."""
