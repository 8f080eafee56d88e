"""A broker's failure code as the exception that fits it, with a hint where there is one."""

from emberq.errors import (
    BrokerError,
    GroupNotFound,
    MessageIllegal,
    NoPermission,
    SubscriptionUnknown,
    SystemBusy,
)
from emberq.protocol.codes import ResponseCode
from emberq.protocol.command import Command

_KINDS: dict[int, type[BrokerError]] = {
    ResponseCode.SYSTEM_BUSY: SystemBusy,
    ResponseCode.FLOW_CONTROL: SystemBusy,
    ResponseCode.NO_PERMISSION: NoPermission,
    ResponseCode.MESSAGE_ILLEGAL: MessageIllegal,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GroupNotFound,
    ResponseCode.SUBSCRIPTION_NOT_EXIST: SubscriptionUnknown,
    ResponseCode.SUBSCRIPTION_NOT_LATEST: SubscriptionUnknown,
}
_HINTS: dict[int, str] = {
    ResponseCode.TOPIC_NOT_EXIST: "Create the topic, or switch autoCreateTopicEnable on",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: (
        "Create the group, or switch autoCreateSubscriptionGroup on"
    ),
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: (
        "Is this the port of a broker? Name servers and brokers serve different requests"
    ),
    ResponseCode.SERVICE_NOT_AVAILABLE: "The broker's disk may be full, or it is stopping",
}


def broker_failure(answer: Command, broker: str) -> BrokerError:
    kind = _KINDS.get(answer.code, BrokerError)
    return kind(answer.code, answer.remark, broker, hint=_HINTS.get(answer.code, ""))
