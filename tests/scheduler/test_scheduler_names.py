"""What is meant and said where no profile has the schedulerName of a pod."""

import pytest

from scheduler.settings import default
from scheduler.settings.scheduler_names import DEFAULT_SCHEDULER, led, misspelt, served_instead, similar_name, unserved

OURS = default().scheduler_names


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("dovtail", "dovetail"),
        ("Dovetail", "dovetail"),
        ("dovetail-scheduler", "dovetail"),
        ("dove_tail", "dovetail"),
        ("gpu-schedular", ""),
        ("gpu-scheduler", ""),
        ("default-scheduler", ""),
        ("dovetail-batch", ""),
        ("scheduler", ""),
        ("volcano", ""),
        ("", ""),
    ],
)
def test_similar_names(name: str, meant: str) -> None:
    assert similar_name(name, ["dovetail"]) == meant


def test_the_name_of_the_default_profile_means_a_profile_of_ours() -> None:
    assert similar_name("dovetail", ["batch", "training"]) == "batch"


def test_short_names_are_similar_only_if_one_letter_differs() -> None:
    assert (similar_name("gpq", ["gpu"]), similar_name("tpq", ["gpu"])) == ("gpu", "")


@pytest.mark.parametrize(
    ("name", "known", "instead"),
    [
        pytest.param("dovetial", ("dovetail", "batch"), "dovetail", id="misspelt"),
        pytest.param("volcano", ("batch", "dovetail"), "dovetail", id="another scheduler: the name of the defaults"),
        pytest.param("volcano", ("training", "batch"), "batch", id="or the first one"),
        pytest.param(DEFAULT_SCHEDULER, ("dovetail",), "dovetail", id="none is named"),
        pytest.param("batch", ("batch", "dovetail"), "batch", id="served"),
        pytest.param("", ("dovetail",), "", id="no pod"),
    ],
)
def test_the_name_to_write(name: str, known: tuple[str, ...], instead: str) -> None:
    assert served_instead(name, known) == instead
    said = unserved(name, known)
    assert (f"Write schedulerName: {instead};" in said) == bool(said)
    assert bool(said) == (bool(name) and name not in known)


def test_nobody_can_change_the_name_of_a_pod_that_exists() -> None:
    assert "that of a pod that exists cannot be changed, so make the pod anew" in unserved("dovetial", OURS)
    assert ", which a pod gets that names none: it serves dovetail." in unserved(DEFAULT_SCHEDULER, OURS)


def test_a_name_of_any_length_is_cut_and_escaped() -> None:
    said = unserved("\x1b[2J" + "x" * 1_000_000, OURS)
    assert len(said) < 300
    assert said.isprintable()


def test_names_of_other_schedulers_are_not_misspelt() -> None:
    assert misspelt(["volcano", "dovetial", "dovetail", DEFAULT_SCHEDULER, "Dovetail"], OURS) == (
        "Dovetail",
        "dovetial",
    )


def test_an_answer_is_led_by_what_is_said() -> None:
    assert led("", "It fits.") == "It fits."
    assert led("x", "It fits.") == "No pod would start: x. With that name: It fits."


@pytest.mark.parametrize(
    ("name", "is_said"),
    [("dovetial", True), (DEFAULT_SCHEDULER, True), ("volcano", False), ("dovetail-batch", False), ("dovetail", False)],
)
def test_of_a_scheduler_that_may_run_elsewhere_only_mistakes_are_told(name: str, *, is_said: bool) -> None:
    assert bool(unserved(name, OURS, is_certain=False)) == is_said
