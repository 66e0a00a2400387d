"""What is left of a system in which nothing happened."""

from services.admin.decisions import Decisions
from services.measure.chaos.audit import Evidence

EMPTY = Evidence(Decisions({}, {}, {}, {}, {}, [], []), (), (), {}, {})
