"""Makes the checker of Proofs/History hold that a call whose outcome is not known comes before another one of its key, or never.

A limit alone allows it until that other call returns, so also after its effect.
"""
from model import LOOKS, NO


class Ordered:
    """A step between states (state of the item, calls that cannot take effect any more)."""

    def __init__(self, step):
        self.step = step
        self.name = None  # of this call, if others end it
        self.ends = frozenset()  # the calls that cannot take effect after this one

    def __call__(self, state, argument):
        item, ended = state or (None, frozenset())
        if self.name is not None and self.name in ended:
            return NO
        item = self.step(item, argument)
        return NO if item is NO else (item, ended | self.ends)


def require(pairs, operations):
    """In each pair the first comes before the second, or never. All are operations of one key."""
    for operation in operations:
        operation.step = Ordered(operation.step)
    for number, (first, second) in enumerate(pairs):
        first.step.name = number
        second.step.ends |= {number}
        second.is_look = False  # the state says that it has been


def step_of(operation):
    return operation.step.step if isinstance(operation.step, Ordered) else operation.step


def is_look(operation):
    return step_of(operation) in LOOKS


def states_of(violation):
    """Those of the item."""
    if isinstance(violation.failed.step, Ordered):
        return {(state or (None, None))[0] for state in violation.states}
    return violation.states
