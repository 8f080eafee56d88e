from emberq.broker.request_modes import RequestModes
from emberq.protocol.bodies.request_mode import RequestModeSetting, RequestModeTable

SETTING = RequestModeSetting(topic="T", group="G")


def test_settings_are_found_by_topic_and_group_and_survive_a_restart() -> None:
    modes = RequestModes()

    modes.put("T", "G", SETTING)
    table = modes.table()
    modes.put("T", "H", SETTING)

    assert modes.get("T", "G") is SETTING
    assert modes.get("T", "X") is modes.get("X", "G") is None
    assert table == RequestModeTable(settings={"T": {"G": SETTING}})
    assert RequestModes(table).get("T", "G") == SETTING
