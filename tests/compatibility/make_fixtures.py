"""Write the files of the present formats: run once, when a format gets a new version.

python -m tests.compatibility.make_fixtures
"""

import json
from pathlib import Path

from ase.build import molecule

from cliffordstf.model.file import FORMAT_VERSION, load_model
from tests.attack.targets import small_potential, write_checkpoint, write_model, write_native, write_restart

FIXTURES = Path(__file__).with_name("fixtures")
NUMBERS = "numbers.json"


def main() -> None:
    """Write into a folder of the version's own, which must not be there yet."""
    folder = FIXTURES / f"format-{FORMAT_VERSION}"
    folder.mkdir()
    write_model(folder)
    write_checkpoint(folder)
    write_native(folder)
    write_restart(folder)
    potential, _ = load_model(folder / "model.safetensors")
    prediction = potential.double().predict(molecule("H2O"))
    assert prediction.forces is not None
    numbers = {"energy": float(prediction.energy), "forces": prediction.forces.tolist()}
    numbers["parameters"] = sum(parameter.numel() for parameter in small_potential().parameters())
    (folder / NUMBERS).write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
