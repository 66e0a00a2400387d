"""All commands of `hirl` in one table; each is imported only when it is called.

The models and their compiler take seconds to import, and most commands need neither.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeVar

import typer

F = TypeVar("F", bound=Callable[..., None])


class Command(NamedTuple):
    """Where a command is, and its line in the help."""

    target: str
    """`module:attribute` of its function."""
    line: str
    """The first line of the function's docstring, so that the help doesn't need to import it."""


GROUPS: Final = {
    "override": "Orders of operators to the running system.",
    "breaker": "Circuit breakers: show, open and reset them.",
    "models": "Model artefacts: sign, check, promote and roll back.",
    "train": "Train models; needs the environment of `make train-env`.",
    "world": "Inspect the simulated cluster itself.",
    "bench": "Measure speed, and compare controllers.",
    "hpa": "The Horizontal Pod Autoscaler and its exactness.",
    "schemas": "Contracts of the events on the bus.",
    "kafka": "A real Apache Kafka on this machine, under .hirl/kafka.",
    "lab": "A real Kubernetes API server on this machine, under .hirl/lab.",
    "kubernetes": "A cluster that HiRL-Scale is installed on.",
    "topics": "Topics, their settings and ACLs on a Kafka cluster.",
    "state": "Saved states of the services.",
}
"""Help of the commands that have commands of their own."""

COMMANDS: Final[dict[str, Command]] = {
    "simulate": Command(
        "services.cli.simulation.simulate:simulate",
        "Run one scenario under one controller, live; ends with the table of its figures.",
    ),
    "race": Command(
        "services.cli.comparison.race:race",
        "Run controllers side by side: the same scenario and seed, in lock-step, live.",
    ),
    "blame": Command(
        "services.cli.comparison.blame:blame_command",
        "Share a breach among forecast, Commander, Soldiers and provisioner.",
    ),
    "counterfactual": Command(
        "services.cli.comparison.counterfactual:counterfactual_command",
        "Decide otherwise for some minutes of a run, and compare what comes of it.",
    ),
    "up": Command(
        "services.cli.system.up:up",
        "Start the whole system on a simulated cluster: Kafka, every service, and a live view.",
    ),
    "status": Command(
        "services.cli.system.status:status",
        "Show the services, their lag and the scenario's progress; exit 1 unless all is healthy.",
    ),
    "down": Command(
        "services.cli.system.status:down",
        "Stop everything that `hirl up` started here, and nothing else. Logs stay, records go.",
    ),
    "kernels": Command(
        "services.cli.system.kernels:kernels",
        "Compile the kernels of all services and of the simulated cluster into the cache.",
    ),
    "tail": Command(
        "services.cli.bus.tail:tail",
        "Follow a topic until Ctrl-C: time, key, and a summary of each event.",
    ),
    "explain": Command(
        "services.cli.bus.explain:explain",
        "Explain an app's replicas: observed, forecast, budget, need, plan and outcome.",
    ),
    "override pause": Command(
        "services.cli.bus.override:pause",
        "Apply no changes, or none in one direction; `resume` ends it.",
    ),
    "override resume": Command(
        "services.cli.bus.override:resume",
        "End the pause and the freeze of a scope; those of other scopes stay.",
    ),
    "override freeze": Command(
        "services.cli.bus.override:freeze",
        "Change nothing at all; it stands beside a pause, and takes effect at once.",
    ),
    "override floor": Command(
        "services.cli.bus.override:floor",
        "Keep at least N replicas of each app, within its declared bounds and the budget.",
    ),
    "override ceiling": Command(
        "services.cli.bus.override:ceiling",
        "Keep at most N replicas of each app, within its declared bounds.",
    ),
    "override mode": Command(
        "services.cli.bus.override:mode",
        "Set the mode; of several orders the strictest mode counts.",
    ),
    "override lift": Command(
        "services.cli.bus.override:lift",
        "End the orders of a scope before their time; those of other scopes stay.",
    ),
    "override list": Command(
        "services.cli.bus.override:list_orders",
        "List the orders in force: what, by whom, until when and why.",
    ),
    "override history": Command(
        "services.cli.bus.override:history",
        "Show each order with what it changed and held; replaced orders are kept for 30 days.",
    ),
    "breaker show": Command(
        "services.cli.bus.breaker:show",
        "Show state and level of each breaker, since when, and why.",
    ),
    "breaker open": Command(
        "services.cli.bus.breaker:open_breaker",
        "Open a breaker: nothing is changed until the order ends or is reset.",
    ),
    "breaker reset": Command(
        "services.cli.bus.breaker:reset",
        "Close an open breaker once; it opens again if its cause is still there.",
    ),
    "models keygen": Command(
        "services.cli.models.artefacts:keygen",
        "Make a key to sign models with, and the public key that services trust.",
    ),
    "models add": Command(
        "services.cli.models.artefacts:add",
        "Check a trained model, sign it and put it into the store; promotes nothing.",
    ),
    "models list": Command(
        "services.cli.models.artefacts:list_models",
        "List the artefacts of a store, and what is wrong with those that no service would open.",
    ),
    "models show": Command(
        "services.cli.models.artefacts:show",
        "Print the manifest of an artefact: what it is, where it comes from, who signed it.",
    ),
    "models verify": Command(
        "services.cli.models.artefacts:verify",
        "Check an artefact as a service would, its samples included; exit 2 if it is refused.",
    ),
    "models evaluate": Command(
        "services.cli.models.gate:evaluate",
        "Judge a model by recorded evidence; exit 1 if it may not be promoted.",
    ),
    "models time": Command(
        "services.cli.models.timing:time_model",
        "Time the answers of a policy for a whole cluster, as services ask it.",
    ),
    "models promote": Command(
        "services.cli.models.promoting:promote",
        "Let services serve a model: shadow first, then a share of the domains, then all.",
    ),
    "models rollback": Command(
        "services.cli.models.promoting:rollback",
        "Return to an earlier version, or to what ships, at once.",
    ),
    "models lock": Command(
        "services.cli.models.promoting:lock",
        "Let services begin nothing new; what they serve stays.",
    ),
    "models unlock": Command(
        "services.cli.models.promoting:unlock",
        "End a lock, that of a rollback included.",
    ),
    "models rules": Command(
        "services.cli.models.promoting:rules",
        "Show or change the rules of rollouts, the thresholds of the gate and the weights.",
    ),
    "models history": Command(
        "services.cli.models.promoting:history",
        "Show what was ordered and what services made of it, with the evidence.",
    ),
    "chaos": Command(
        "services.cli.benchmarks.chaos:chaos",
        "Inject faults and false data into a running system, and count lost or doubled changes.",
    ),
    "calibrate": Command(
        "services.cli.comparison.calibrate:calibrate_command",
        "Tune controllers by the same search, on the same scenarios and for the same objective.",
    ),
    "forecast": Command(
        "services.cli.forecast.one_shot:forecast",
        "Forecast the minutes 5, 15 and 30 minutes ahead, with 80 % intervals and the peak.",
    ),
    "train forecaster": Command(
        "services.cli.forecast.train:forecaster",
        "Train the forecaster on simulated months and recorded traffic.",
    ),
    "train corrector": Command(
        "services.cli.forecast.train:corrector",
        "Fit a corrector to the model's forecasts of recorded traffic and their errors.",
    ),
    "train commander": Command(
        "services.cli.policies.train:commander",
        "Train a Commander's policy: residuals on the heuristic, rewarded against it.",
    ),
    "train soldier": Command(
        "services.cli.policies.train:soldier",
        "Train the Soldiers' policy: one network for every domain, from the heuristic on.",
    ),
    "world show": Command(
        "services.cli.simulation.world:show",
        "Check a cluster description and print it as it was understood.",
    ),
    "world generate": Command(
        "services.cli.simulation.generate:generate",
        "Write a random cluster with its physics: domains, priorities, own and shared pools.",
    ),
    "world failures": Command(
        "services.cli.simulation.failures:failures",
        "Measure stampede, cascade and priority inversion under a controller.",
    ),
    "world validate": Command(
        "services.cli.simulation.validate:validate",
        "Check the simulated cluster against theory, real tables and its own promises.",
    ),
    "world months": Command(
        "services.cli.forecast.months:months_command",
        "Write simulated traffic per domain and minute, with a calendar that is partly wrong.",
    ),
    "world fit": Command(
        "services.cli.simulation.world:fit",
        "Fit sizes, service times, profiles, noise and calls, and write them with provenance.",
    ),
    "bench control": Command(
        "services.cli.comparison.control:control",
        "Compare controllers: the same scenarios and seeds for each, on all cores.",
    ),
    "bench year": Command(
        "services.cli.comparison.year:year",
        "Compare controllers over a year: whole days, each weighted by how often it occurs.",
    ),
    "bench frontier": Command(
        "services.cli.comparison.frontier:frontier",
        "Compare families where they cost as much, and where they violate as much.",
    ),
    "bench sensitivity": Command(
        "services.cli.comparison.sensitivity:sensitivity",
        "Show how a comparison depends on each mechanism of the simulated world.",
    ),
    "bench foresight": Command(
        "services.cli.comparison.foresight:foresight_command",
        "Check that better forecasts give a lower J; exit 1 if a scenario shows the opposite.",
    ),
    "bench policy": Command(
        "services.cli.policies.bench:policy",
        "Compare a policy with the heuristic it sits on; exit 1 unless it may replace it.",
    ),
    "bench breaker": Command(
        "services.cli.benchmarks.breaker:breaker",
        "Time to trip by priority, trips in scenarios, and J with and without breakers.",
    ),
    "bench decisions": Command(
        "services.cli.benchmarks.speed:decisions",
        "Time per decision of one environment: of a minute's first tick and of the others.",
    ),
    "bench path": Command(
        "services.cli.benchmarks.path:path",
        "Time from a tick's last sample to its last change, in real time, a process per service.",
    ),
    "bench override": Command(
        "services.cli.benchmarks.override:override",
        "Time from an operator's pause to the first plan that it holds, a process per service.",
    ),
    "bench size": Command(
        "services.cli.benchmarks.size:size",
        "Time, CPU, memory and saved states of a tick in lock-step, and how long restarts take.",
    ),
    "bench sim": Command(
        "services.cli.benchmarks.speed:sim",
        "Environment-ticks per second on one core, every mechanism on, an HPA per app included.",
    ),
    "bench forecast": Command(
        "services.cli.forecast.bench:forecast",
        "Score forecasts 5, 15 and 30 minutes ahead on a file of recorded traffic.",
    ),
    "bench published": Command(
        "services.cli.forecast.published:published",
        "Score repeat-last, a DLinear-like model and the TFT as published tables do.",
    ),
    "hpa golden": Command(
        "services.cli.comparison.hpa:golden",
        "Compute cases whose answers came from the real controller; exit 1 if one differs.",
    ),
    "schemas generate": Command(
        "services.cli.bus.schemas:generate_command",
        "Write a JSON Schema per topic and the AsyncAPI document.",
    ),
    "schemas check": Command(
        "services.cli.bus.schemas:check",
        "Compare the events with every release; print breaking changes and exit with code 2.",
    ),
    "schemas release": Command(
        "services.cli.bus.schemas:release",
        "Store the current schemas as a release; later schemas must be compatible with it.",
    ),
    "schemas speed": Command(
        "services.cli.bus.schemas:speed",
        "Measure how long a frame takes to encode and decode, as JSON and as msgpack.",
    ),
    "kafka up": Command(
        "services.cli.bus.kafka:up",
        "Start Kafka and wait until it answers; a running one stays as it is.",
    ),
    "kafka down": Command(
        "services.cli.bus.kafka:down", "Stop the brokers that `up` started, and no other process."
    ),
    "kafka status": Command(
        "services.cli.bus.kafka:status", "Show what runs; exit 1 unless all brokers do."
    ),
    "lab build": Command(
        "services.cli.system.lab:build",
        "Build etcd, the API server and Helm from their Go modules, once, into a cache.",
    ),
    "lab up": Command(
        "services.cli.system.lab:up",
        "Start a real API server with etcd on loopback; a running one stays as it is.",
    ),
    "lab down": Command(
        "services.cli.system.lab:down",
        "Stop the processes that `up` started, and no other process.",
    ),
    "lab run": Command(
        "services.cli.system.lab:run",
        "Play a scenario on a real control plane, with the simulator's figures beside it.",
    ),
    "kubernetes release": Command(
        "services.cli.system.kubernetes:release",
        "Hand adopted workloads back to their owners, with the replicas that they had before.",
    ),
    "state show": Command(
        "services.cli.bus.state:show",
        "Print what a service has saved of a domain or of the cluster.",
    ),
    "state reset": Command(
        "services.cli.bus.state:reset",
        "Drop the saved state of a domain or the cluster; audited on hirl.rejected.v1.",
    ),
    "topics apply": Command(
        "services.cli.bus.topics:apply",
        "Create missing topics and fix settings; exit 2 if something cannot be fixed.",
    ),
    "topics check": Command(
        "services.cli.bus.topics:check",
        "Compare and change nothing; one line per difference, exit 2 if there is one.",
    ),
}


def assemble(app: typer.Typer, is_called: Callable[[str], bool]) -> None:
    """Add all commands: the called ones fully, the others as a name and a line of help."""
    groups: dict[str, typer.Typer] = {}
    for name, entry in COMMANDS.items():
        group, _, command = name.rpartition(" ")
        # At its first command, so that the help lists groups in the order of the table.
        if group and group not in groups:
            groups[group] = typer.Typer(no_args_is_help=True, help=GROUPS[group])
            app.add_typer(groups[group], name=group)
        parent = groups[group] if group else app
        if is_called(name):
            function = load(entry)
            epilog = getattr(function, "epilog", None)
            parent.command(name=command, epilog=epilog)(function)
        else:
            # A placeholder with its line of help: importing all commands would take seconds.
            parent.command(name=command, help=entry.line)(_not_loaded)


def load(entry: Command) -> Callable[..., Any]:
    """Import the function of a command."""
    module, _, attribute = entry.target.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), attribute)
    return function


def examples(*lines: str) -> Callable[[F], F]:
    """Give a command examples, which its help prints at the end."""
    label = "Example:" if len(lines) == 1 else "Examples:"
    # A line each: commas between examples would look like those within their options.
    epilog = "\n".join((label, *(f"[bold]{line}[/bold]" for line in lines)))

    def decorate(function: F) -> F:
        # On the function, because the command is registered only later, in `assemble`.
        function.__dict__["epilog"] = epilog
        return function

    return decorate


def _not_loaded() -> None:
    raise AssertionError("a called command is always loaded")
