"""The table and random expressions against the Go implementation of Kubernetes 1.37, which the compiler follows."""

from collections.abc import Iterator

import pytest

from e2e.controlplane import build
from tests.support import cel_oracle
from tests.support.cel_random import ExpressionSource

pytestmark = [pytest.mark.controlplane, pytest.mark.kubernetes(since="1.37")]

_DEVICES = cel_oracle.devices()
_SEEDS_PER_TEST = 250


@pytest.fixture(scope="module")
def oracle() -> Iterator[cel_oracle.Oracle]:
    asked = cel_oracle.Oracle(build.controlplane_binary())
    yield asked
    asked.close()


def test_the_recorded_answers_are_those_of_the_real_environment(oracle: cel_oracle.Oracle) -> None:
    answers = {text: oracle.ask(text, _DEVICES) for text in cel_oracle.recorded()}
    assert answers == cel_oracle.recorded()


@pytest.mark.parametrize("first_seed", range(0, 2000, _SEEDS_PER_TEST))
def test_random_expressions_are_answered_as_the_real_environment_answers_them(
    oracle: cel_oracle.Oracle, first_seed: int
) -> None:
    for seed in range(first_seed, first_seed + _SEEDS_PER_TEST):
        expression = ExpressionSource(seed).expression()
        assert (seed, expression, cel_oracle.ours(expression, _DEVICES)) == (
            seed,
            expression,
            oracle.ask(expression, _DEVICES),
        )
