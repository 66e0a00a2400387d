"""The reasons that decisions carry, in words."""

from typing import Final

_WORDS: Final = {
    # Of a plan.
    "hold-in-tolerance": "it has what it needs, give or take; small differences are left alone",
    "scale-out": "it needs more than it has",
    "scale-in": "it has needed less for long enough",
    "hold-stabilising": "it needs less, but not for long enough yet",
    "hold-no-metrics": "nothing is heard of it, and what is missing never lowers anything",
    "hold-not-due": "its turn has not come",
    "hold-cool-down": "it was changed a moment ago and rests",
    "hold-blast-radius": "its domain has had as many decreases or moves as a window allows",
    "hold-budget": "the budget of its domain has no room for more",
    "yield": "it gives way: its domain has to give back what others cannot do without",
    "resize": "its pods are sized anew",
    # Of the actuator.
    "breaker-open": "the breaker is open: nothing is changed",
    "breaker-stale": "the breaker's heartbeat has stopped, which is as good as an open breaker",
    "breaker-half-open": "the breaker is on trial: nothing is made smaller",
    "off": "its mode is off",
    "preview": "its mode is preview: decided and published, nothing is changed",
    "not-in-canary": "only canaries are changed, and it is none",
    "paused": "it is paused for changes of this kind",
    "not-declared": "it is no longer in the inventory",
    "no-frame": "the frame of this tick did not come in time",
    "newer-plan": "the next plan came before this one was carried out",
    "override": "an operator ordered it",
    "target-unknown": "the cluster does not know whether it was done",
    "target-refused": "the cluster has no such app now",
    "target-superseded": "the cluster was told something newer",
}


def in_words(reason: str) -> str:
    """What a reason means; one that is in words already stays as it is."""
    return _WORDS.get(reason, reason)
