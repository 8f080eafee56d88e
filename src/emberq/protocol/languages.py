"""Which language a peer says it is written in."""

from enum import IntEnum


class Language(IntEnum):
    """The byte of a binary header; its name is the text of a JSON header."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13

    @classmethod
    def name_of(cls, code: int) -> str:
        """The name for a code; a number nobody has given out yet is OTHER."""
        language = cls._value2member_map_.get(code)
        return "OTHER" if language is None else language.name

    @classmethod
    def code_of(cls, name: str | None) -> int:
        """The code for a name; an unknown or absent name is OTHER, which every peer knows."""
        language = cls._member_map_.get(name or "")
        return cls.OTHER.value if language is None else int(language.value)
