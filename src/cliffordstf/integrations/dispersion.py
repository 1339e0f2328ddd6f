"""The D3(BJ) dispersion correction by the library simple-dftd3, to be added to any potential.

It is the two-body correction with rational (Becke-Johnson) damping and the damping parameters published for a density
functional. It belongs on potentials that were trained on energies of that functional without dispersion.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from ase import Atoms
from ase.calculators.calculator import Calculator as AseCalculator
from ase.calculators.calculator import PropertyNotImplementedError, all_changes
from ase.calculators.mixing import SumCalculator
from ase.stress import full_3x3_to_voigt_6_stress
from ase.units import Bohr, Hartree

from cliffordstf.data.structure import FloatArray, Structure, as_structure, symbol
from cliffordstf.errors import ConfigError, StructureError, UnknownElementError
from cliffordstf.options.text import did_you_mean

LAST_CERTAIN_ELEMENT = 94
"""Elements up to plutonium have coefficients in every version of the library."""

PROBE_DISTANCE = 8.0
"""Bohr, between two atoms of one element: without coefficients they do not interact."""


@dataclass(frozen=True, eq=False)
class DispersionResult:
    """Dispersion of a structure.

    Attributes:
        energy: eV.
        forces: eV/Å, (atoms, 3).
        stress: eV/Å³, (3, 3), positive under tension; None without a volume.
    """

    energy: float
    forces: FloatArray
    stress: FloatArray | None


class D3:
    """D3(BJ) dispersion of a density functional.

    Pairs count up to the 60 bohr of the library, where the energy of one jumps by about 1e-7 eV.

    Args:
        functional: For example `pbe`, `revpbe` or `b3lyp`; upper and lower case are the same.

    Raises:
        ConfigError: The package dftd3 is not installed, or there are no parameters for the functional.

    Example:
        >>> from ase.build import molecule
        >>> round(D3("pbe").evaluate(molecule("C6H6")).energy, 3)  # eV
        -0.298
    """

    def __init__(self, functional: str) -> None:
        self._interface = _interface()
        self.functional = functional
        try:
            # Explicit, because the default has changed: the published D3(BJ) parameters go without three-body terms.
            self._parameters = self._interface.RationalDampingParam(method=functional, atm=False)
        except RuntimeError:
            raise ConfigError(
                f"there are no D3(BJ) parameters for the functional '{functional}'"
                f"{did_you_mean(functional.lower(), functionals())}; give one that has them, for example pbe, revpbe, "
                "r2scan or b3lyp."
            ) from None

    def evaluate(self, structure: Structure | Atoms) -> DispersionResult:
        """Energy, forces and stress of a structure, periodic or not."""
        checked = as_structure(structure)
        found = self._run(checked, lambda model: model.get_dispersion(self._parameters, grad=True))
        volume = abs(float(np.linalg.det(checked.cell)))
        return DispersionResult(
            energy=float(found["energy"]) * Hartree,
            forces=-found["gradient"] * (Hartree / Bohr),
            stress=found["virial"] * (Hartree / volume) if volume > 0 else None,
        )

    def atom_energies(self, structure: Structure | Atoms) -> FloatArray:
        """The energy divided among the atoms, eV, (atoms,): each atom of a pair has half of it."""
        found = self._run(as_structure(structure), lambda model: model.get_pairwise_dispersion(self._parameters))
        return np.asarray(found["additive pairwise energy"].sum(axis=1) * Hartree)

    def hessian(self, structure: Structure | Atoms) -> FloatArray:
        """Second derivatives of the energy with respect to the positions, eV/Å², (atoms, 3, atoms, 3).

        Raises:
            ConfigError: The library is older than version 1.6, which has them.
        """
        checked = as_structure(structure)
        if not hasattr(self._interface.DispersionModel, "get_hessian"):
            raise ConfigError("the Hessian of D3 needs dftd3 1.6 or newer: pip install -U 'cliffordstf[d3]'.")
        found = self._run(checked, lambda model: model.get_hessian(self._parameters))
        matrix = found["hessian"].reshape(len(checked), 3, len(checked), 3)
        return np.asarray(matrix * (Hartree / Bohr**2))

    def _run(self, structure: Structure, action: Any) -> dict[str, Any]:
        """What `action` returns for the library's model of a structure."""
        self._check_elements(structure)
        try:
            found: dict[str, Any] = action(self._model(structure))
        except RuntimeError as error:
            raise StructureError(
                f"D3 cannot be computed for {structure.name} ({error}); check the structure for atoms that are too "
                "close."
            ) from None
        return found

    def _model(self, structure: Structure) -> Any:
        lattice = structure.full_cell() / Bohr if structure.pbc.any() else None
        return self._interface.DispersionModel(
            structure.numbers, structure.positions / Bohr, lattice, structure.pbc if lattice is not None else None
        )

    def _check_elements(self, structure: Structure) -> None:
        """Refuse elements without coefficients, for which the library returns zero."""
        pair = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, PROBE_DISTANCE]])
        for number in np.unique(structure.numbers[structure.numbers > LAST_CERTAIN_ELEMENT]):
            model = self._interface.DispersionModel(np.array([number, number]), pair)
            if float(model.get_dispersion(self._parameters, grad=False)["energy"]) == 0.0:
                raise UnknownElementError(
                    f"{structure.name} holds {symbol(int(number))}, for which D3 has no coefficients; leave the "
                    "dispersion out."
                )


class D3Calculator(AseCalculator):
    """D3(BJ) dispersion alone as an ASE calculator, in eV, eV/Å and eV/Å³; see `with_d3` for sums.

    Args:
        functional: See `D3`.
    """

    implemented_properties = ["energy", "free_energy", "forces", "stress", "energies"]  # noqa: RUF012 - as ASE has it
    nolabel = True

    def __init__(self, functional: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dispersion = D3(functional)

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        """Called by ASE: evaluate the dispersion at `atoms` and fill `results`."""
        super().calculate(atoms, list(properties), list(system_changes))  # type: ignore[no-untyped-call]
        assert self.atoms is not None
        structure = Structure.from_ase(self.atoms)
        found = self.dispersion.evaluate(structure)
        self.results = {"energy": found.energy, "free_energy": found.energy, "forces": found.forces}
        if found.stress is not None:
            self.results["stress"] = np.asarray(full_3x3_to_voigt_6_stress(found.stress))
        elif "stress" in properties:
            raise PropertyNotImplementedError(f"{structure.name} has no three-dimensional cell, so it has no stress.")
        if "energies" in properties:
            self.results["energies"] = self.dispersion.atom_energies(structure)

    def get_hessian(self, atoms: Atoms | None = None) -> FloatArray:
        """Hessian of the dispersion, eV/Å², (3 · atoms, 3 · atoms); by default of the atoms of the last calculation."""
        atoms = self.atoms if atoms is None else atoms
        if atoms is None:
            raise ConfigError("the calculator has seen no atoms yet; call get_hessian(atoms).")
        return self.dispersion.hessian(atoms).reshape(3 * len(atoms), 3 * len(atoms))


def with_d3(calculator: AseCalculator, functional: str) -> SumCalculator:
    """Any ASE calculator plus the D3(BJ) dispersion of a functional.

    `cliffordstf.Calculator` has the argument `dispersion` for the same.

    Example:
        >>> from ase.build import molecule
        >>> from ase.calculators.emt import EMT
        >>> atoms = molecule("C6H6")
        >>> atoms.calc = with_d3(EMT(), "pbe")
        >>> round(float(atoms.get_potential_energy() - EMT().get_potential_energy(atoms)), 3)
        -0.298
    """
    return SumCalculator([calculator, D3Calculator(functional)])


def functionals() -> list[str]:
    """Names of the functionals with D3(BJ) parameters; other spellings of them are understood, too."""
    _interface()
    table = files("dftd3") / "parameters.toml"
    if not table.is_file():
        return []
    entries = tomllib.loads(table.read_text(encoding="utf-8"))["parameter"]
    return sorted(name for name, entry in entries.items() if "bj" in entry.get("d3", {}))


def _interface() -> Any:
    try:
        from dftd3 import interface  # noqa: PLC0415 - an optional package
    except ImportError:
        raise ConfigError(
            "the D3 dispersion correction needs the package dftd3, which is not installed: pip install "
            "'cliffordstf[d3]'."
        ) from None
    return interface
