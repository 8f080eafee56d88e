"""Version ordinals have the official names."""

import pytest

from emberq.errors import ProtocolError
from emberq.protocol import versions
from emberq.protocol.languages import Language
from emberq.protocol.versions import CURRENT, version_name, version_ordinal


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [
        ("V3_0_0_SNAPSHOT", 0),
        ("V3_0_0_BETA6_SNAPSHOT", 7),
        ("V3_0_0_FINAL", 15),
        ("V3_0_7_SNAPSHOT", 28),
        ("V3_0_11", 37),
        ("V3_1_8_SNAPSHOT", 62),
        ("V3_4_9", 121),
        ("V4_0_0", 213),
        ("V4_1_0_SNAPSHOT", 232),
        ("V4_1_0", 233),
        ("V4_5_2", 317),
        ("V4_9_3", 399),
        ("V4_9_4", 401),
        ("V4_9_8", 409),
        ("V5_0_0", 413),
        ("V5_3_3", 479),
        ("V5_5_0", 513),
        ("V5_9_9", 611),
        ("HIGHER_VERSION", 612),
    ],
)
def test_a_version_and_its_ordinal_name_each_other(name: str, ordinal: int) -> None:
    assert version_name(ordinal) == name
    assert version_ordinal(name) == ordinal


def test_constants_are_the_ordinals_of_their_names() -> None:
    named = {name: value for name, value in vars(versions).items() if name.startswith("V")}
    assert named
    assert {name: version_ordinal(name) for name in named} == named


def test_we_answer_as_five_five_zero() -> None:
    assert version_name(CURRENT) == "V5_5_0"


def test_whatever_is_above_the_list_is_a_higher_version() -> None:
    assert version_name(613) == version_name(2**31 - 1) == "HIGHER_VERSION"


def test_a_negative_ordinal_is_named_unknown_instead_of_failing() -> None:
    assert version_name(-1) == "UNKNOWN"


def test_a_name_outside_the_list_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="V6_0_0"):
        version_ordinal("V6_0_0")


def test_languages_have_the_official_numbers() -> None:
    names = ["JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO"]
    names += ["PHP", "OMS", "RUST", "NODE_JS"]
    assert [language.name for language in Language] == names
    assert [Language.code_of(language.name) for language in Language] == list(range(14))
    assert [Language.name_of(code) for code in (0, 3, 9)] == ["JAVA", "PYTHON", "GO"]


def test_a_language_nobody_knows_is_other() -> None:
    assert Language.name_of(200) == "OTHER"
    assert Language.code_of("COBOL") == Language.code_of(None) == Language.OTHER
