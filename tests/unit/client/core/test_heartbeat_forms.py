"""Which form of its heartbeat a broker gets."""

from msgspec.structs import replace

from emberq.client.core.heartbeat_forms import HeartbeatForms, fingerprint
from emberq.model.subscription import Subscription
from emberq.protocol.bodies.heartbeat import ConsumerPresence, Heartbeat

KNOWN = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}


def beat(client_id: str = "me", version: int = 1, tag: str = "A") -> Heartbeat:
    subscription = Subscription(topic="orders", expression=tag, version=version)
    return Heartbeat(
        client_id=client_id,
        consumers=[ConsumerPresence(group="readers", subscriptions=[subscription])],
    )


def test_a_fingerprint_is_of_the_wishes_not_of_the_client_or_the_time() -> None:
    assert fingerprint(beat("me", 1)) == fingerprint(beat("you", 2))
    assert fingerprint(beat(tag="A")) != fingerprint(beat(tag="B"))
    assert fingerprint(replace(beat(), fingerprint=7)) == fingerprint(beat())


def test_a_broker_that_knows_everything_gets_the_light_form() -> None:
    forms = HeartbeatForms()

    first = forms.form_for("a", beat())
    forms.answered("a", first, KNOWN)
    second = forms.form_for("a", beat(version=2))

    assert not first.is_without_subscriptions
    assert second.is_without_subscriptions
    assert second.consumers[0].subscriptions == []
    assert second.fingerprint == first.fingerprint
    assert not forms.form_for("b", beat()).is_without_subscriptions
    assert not forms.form_for("a", beat(tag="B")).is_without_subscriptions


def test_what_was_forgotten_is_told_again() -> None:
    forms = HeartbeatForms()
    for address in ("a", "b"):
        forms.answered(address, forms.form_for(address, beat()), KNOWN)

    forms.forget("a")

    assert not forms.form_for("a", beat()).is_without_subscriptions
    assert forms.form_for("b", beat()).is_without_subscriptions
    forms.forget()
    assert not forms.form_for("b", beat()).is_without_subscriptions
