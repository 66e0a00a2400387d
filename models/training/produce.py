"""Produces a policy's folder: tracks, a Soldier's start, PPO, export, card and curves."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from models.compare.families import HEURISTIC, family_of
from models.compare.provenance import family_code, physics_hash
from models.policies.artefact import CARD, COMMANDER, NETWORK, SOLDIER, Card, identity
from models.policies.contract import VERSION
from models.registry.drift import FEATURES, write_features
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.population.generate import generate
from models.training import ppo
from models.training.agents import Commander
from models.training.args import Args
from models.training.clone import clone
from models.training.curves import write_page
from models.training.drawn import drawn_worlds
from models.training.export import export
from models.training.ppo import Trainer
from models.training.rollouts import Track
from models.training.seen import distributions
from models.training.worlds import training_scenarios

_STATE: Final = "state.pt"
Clock = Callable[[], float]
"""Seconds since an arbitrary time."""


class Watch(ppo.Watch, Protocol):
    """Receives progress, from the first track on."""

    def prepared(self, scenario: str) -> None:
        """A track is warmed up."""
        ...


class Order(NamedTuple):
    """What to produce, and where."""

    args: Args
    folder: Path
    checkpoints: Path
    command: str
    """The command that reproduces it; part of the card."""


def produce(order: Order, watch: Watch, clock: Clock) -> Card:
    """Train, and write network, card and curves into the folder."""
    args, began = order.args, clock()
    checkpoint = order.checkpoints / _STATE
    trainer = Trainer(args, checkpoint)
    resumed = bool(trainer.curve)
    if len(trainer.curve) < args.iterations:
        _train(trainer, watch)
    order.folder.mkdir(parents=True, exist_ok=True)
    trainer.agent.policy.load_state_dict(trainer.best)
    network = order.folder / NETWORK
    parity = export(args.agent, trainer.agent.exported, network)
    seen = distributions(args.agent, network, tracks_of(args, args.apps, args.world_seeds, watch))
    (order.folder / FEATURES).write_bytes(write_features(seen))
    card = _card(order, trainer, parity, (clock() - began) / 60, resumed=resumed)
    text = msgspec.json.format(msgspec.json.encode(card))
    (order.folder / CARD).write_bytes(text + b"\n")
    write_page(card.model, trainer.curve, order.folder / "curves.html")
    return card


def _train(trainer: Trainer, watch: Watch) -> None:
    """Stage by stage, from small worlds to those that are judged in."""
    args = trainer.args
    judges = tracks_of(args, args.apps, args.judge_seeds, watch)
    sizes = (*args.smaller, args.apps)
    for stage, apps in enumerate(sizes):
        end = args.iterations * (stage + 1) // len(sizes)
        if len(trainer.curve) >= end:
            continue
        tracks = tracks_of(args, apps, args.world_seeds, watch)
        if not trainer.curve and isinstance(trainer.agent, Commander):
            clone(trainer.agent, tracks)
        trainer.learn(tracks, judges, watch, end)


def tracks_of(args: Args, apps: int, seeds: tuple[int, ...], watch: Watch) -> list[Track]:
    """The training scenarios of the example cluster, then the drawn worlds.

    The shipped scenarios are for reports. Drawn worlds have a seed or two each: more worlds teach
    more than more seeds of one.
    """
    cluster = with_apps(load_sim_cluster(), apps)
    population = generate(cluster)
    worlds = [(cluster, scenario, seeds, population) for scenario in training_scenarios(cluster)]
    # Judges draw others than those that are learned from.
    first = args.drawn if seeds == args.judge_seeds else 0
    worlds += [
        (drawn.cluster, drawn.scenario, seeds[:2], generate(drawn.cluster))
        for drawn in drawn_worlds(first, args.drawn, apps)
    ]
    other = SOLDIER if args.agent == COMMANDER else COMMANDER
    beside = {other: Path(args.beside)} if args.beside else {}
    tracks = []
    for world, scenario, chosen, apps_of_world in worlds:
        tracks.append(Track(world, scenario, chosen, apps_of_world, args.forecast, beside))
        watch.prepared(scenario.name)
    return tracks


def _of_start(trainer: Trainer) -> list[str]:
    """What PPO made of what it began with."""
    start, best = trainer.start, trainer.best_objective
    if best == 0.0:
        return ["no judged iteration beat the heuristic: this is the heuristic, nearly"]
    if start is None:
        return []
    judged = f"J {start.objective:+.2%}, node-hours {start.nodes:+.2%}"
    kind = "clone" if trainer.args.agent == COMMANDER else "heuristic"
    outdone = "" if best < start.objective else f"; no iteration beat it, so this is the {kind}"
    return [f"the start, a {kind}: {judged}{outdone}"]


def _card(order: Order, trainer: Trainer, parity: float, minutes: float, *, resumed: bool) -> Card:
    args = order.args
    cluster = with_apps(load_sim_cluster(), args.apps)
    scenarios = training_scenarios(cluster)
    notes = ["went on from a checkpoint: the minutes are those after it"] if resumed else []
    notes += _of_start(trainer)
    notes += [f"and {args.drawn} randomised worlds"] if args.drawn else []
    rows = sum(scenario.length_minutes for scenario in scenarios) * len(args.world_seeds)
    rows += sum(one.scenario.length_minutes for one in drawn_worlds(0, args.drawn, args.apps)) * 2
    return Card(
        model=identity(order.folder / NETWORK, args.agent),
        contract=VERSION,
        command=order.command,
        args=msgspec.to_builtins(args._asdict() | {"weights": args.weights._asdict()}),
        scenarios=[scenario.name for scenario in scenarios],
        seeds=list(args.world_seeds),
        apps=args.apps,
        # Of the whole cluster: worlds of other sizes are of the same kind.
        world=physics_hash(load_sim_cluster()),
        heuristic=family_code(family_of(HEURISTIC)),
        decisions=rows * len(trainer.curve),
        minutes=minutes,
        parity=parity,
        curve=msgspec.to_builtins(trainer.curve),
        notes=notes,
    )
