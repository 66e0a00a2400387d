"""Why a change is made or held: the codes of `reasons` in plans and in the audit, in plain words.

Other texts occur: a target's own message, and codes of newer releases. Behind a colon is who or why
in particular, as in `hold-second-owner: HorizontalPodAutoscaler web`; after `preview` it is whether
the target would take the change.
"""

from typing import Final

PLANNED: Final = {
    "hold-in-tolerance": "replicas are within tolerance of the need",
    "scale-out": "it needs more replicas than it has",
    "scale-in": "it has needed fewer replicas for long enough",
    "hold-stabilising": "it needs fewer replicas, but not for long enough yet",
    "hold-no-metrics": "metrics are missing, and missing data never lowers anything",
    "hold-not-due": "it is not due in this tick",
    "hold-cool-down": "it was changed recently and is cooling down",
    "hold-blast-radius": "its domain has reached the limit of decreases and moves per window",
    "hold-budget": "its domain's budget has no room for an increase",
    "yield": "its domain releases capacity to domains with a higher need",
    "hold-size": "its pods would become smaller than at first, or too large for that",
    "resize": "its pods get new CPU and memory requests",
}
"""Reasons of plans, which the safety rules give as well."""

DECIDED: Final = {
    "breaker-open": "the breaker is open and does not permit this change",
    "breaker-stale": "the breaker's heartbeat has stopped, which counts as an open breaker",
    "breaker-half-open": "the breaker is half-open: nothing is decreased",
    "off": "its mode is off",
    "preview": "its mode is preview: decided and published, nothing is changed",
    "not-in-canary": "only canaries are changed, and it is not one of them",
    "paused": "it is paused for changes of this kind",
    "not-declared": "it is no longer in the inventory of this domain",
    "no-bounds": "its owner declared no maximum of replicas, or one below the minimum",
    "pods-unknown": "its pods were not reported, or it has none",
    "sample-contradicts-target": "its reported pods contradict what the cluster has",
    "no-frame": "the frame of this tick did not arrive in time",
    "newer-plan": "the next plan arrived before this one was applied",
    "override": "an operator's override",
    "order-floor": "an operator's floor raises it",
    "order-ceiling": "an operator's ceiling lowers it",
    "rollback": "the breaker takes it back to its last good replicas",
    "target-unknown": "the cluster does not have this app in the domain",
    "target-unreadable": "the cluster did not say what it has",
    "target-changed": "the cluster has changed since the plan was made",
    "target-silent": "the cluster did not confirm whether it applied the change",
    "target-refused": "the cluster does not have this app",
    "target-superseded": "the cluster has received a newer change",
    # Of a Kubernetes cluster.
    "hold-unmanaged": "its workload is not marked as managed by HiRL-Scale",
    "hold-paused": "its workload is marked as paused",
    "hold-second-owner": "something else scales its workload",
    "hold-no-resize": "its pods cannot be resized in place",
    "hold-resize-waits": "the size is stored, and kubelets have not given it to all pods",
    "hold-being-deleted": "its workload is being deleted",
}
"""Reasons of the actuator: permissions, the target and its answers."""

MEANINGS: Final = PLANNED | DECIDED
