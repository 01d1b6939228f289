"""All scenes of fail points, by their names in cases."""

from typing import Final

from tests.support.fail_scenes import OF_PODS, Scene
from tests.support.kueue_scenes import LetIn, ParkedAndBack

SCENES: Final[dict[str, type[Scene]]] = {**OF_PODS, "let-in": LetIn, "parked": ParkedAndBack}
