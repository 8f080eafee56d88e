"""Set-up and checks behind the Makefile: standard library only, run before `.venv` exists."""
