"""Where EmberQ answers otherwise than the official broker on purpose, each with its reason."""

# Area → scenario → step → why. A step named here must differ.
ON_PURPOSE: dict[str, dict[str, dict[str, str]]] = {}
