"""Administration of the 5.x users and their policies."""

from typing import ClassVar

from msgspec import field

from emberq.protocol.codes import RequestCode
from emberq.protocol.header_fields import Header


class AuthCreateUser(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.AUTH_CREATE_USER
    user_name: str | None = field(name="username", default=None)


class AuthUpdateUser(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.AUTH_UPDATE_USER
    user_name: str | None = field(name="username", default=None)


class AuthDeleteUser(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.AUTH_DELETE_USER
    user_name: str | None = field(name="username", default=None)


class AuthGetUser(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.AUTH_GET_USER
    user_name: str | None = field(name="username", default=None)


class AuthListUser(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.AUTH_LIST_USER
    filter: str | None = None


class AuthCreateAcl(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.AUTH_CREATE_ACL
    # `User:name`, here and below.
    subject: str | None = None


class AuthUpdateAcl(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.AUTH_UPDATE_ACL
    subject: str | None = None


class AuthDeleteAcl(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.AUTH_DELETE_ACL
    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class AuthGetAcl(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.AUTH_GET_ACL
    subject: str | None = None


class AuthListAcl(Header, frozen=True, kw_only=True):
    code: ClassVar = RequestCode.AUTH_LIST_ACL
    subject_filter: str | None = None
    resource_filter: str | None = None
