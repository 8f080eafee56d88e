"""Whether groups pull or pop, where somebody has said so (messageRequestMode.json)."""

from emberq.protocol.bodies.request_mode import RequestModeSetting, RequestModeTable


class RequestModes:
    def __init__(self, stored: RequestModeTable | None = None) -> None:
        settings = {} if stored is None else stored.settings
        self._settings = {topic: dict(groups) for topic, groups in settings.items()}

    def get(self, topic: str, group: str) -> RequestModeSetting | None:
        return self._settings.get(topic, {}).get(group)

    def put(self, topic: str, group: str, setting: RequestModeSetting) -> None:
        self._settings.setdefault(topic, {})[group] = setting

    def table(self) -> RequestModeTable:
        """A copy for files and peers."""
        return RequestModeTable(
            settings={topic: dict(groups) for topic, groups in self._settings.items()}
        )
