"""A client of i-PI: energies, forces and virials of its beads through its socket, by ASE's protocol."""

import time
import warnings
from collections.abc import Callable

from ase import Atoms
from ase.calculators.calculator import Calculator as AseCalculator
from ase.calculators.socketio import SocketClient

from cliffordstf.errors import CliffordSTFError, ConfigError

DEFAULT_PORT = 31415
"""Of i-PI."""


def serve_ipi(
    atoms: Atoms,
    calculator: AseCalculator,
    unix: str | None = None,
    host: str = "localhost",
    port: int = DEFAULT_PORT,
    wait: float = 60.0,
    on_evaluation: Callable[[int], None] | None = None,
) -> int:
    """Answer an i-PI server until it ends, and return the number of evaluations.

    Args:
        atoms: Elements and periodic directions, with atoms in the order of i-PI's structure; positions and cell come
            from the server, and `atoms` is moved in place. A stress is sent for periodic structures.
        calculator: Any ASE calculator; with periodic structures it must give a stress.
        unix: Name of a Unix socket, the `address` in i-PI's input with `mode='unix'`; None for host and port.
        host, port: Address of the server otherwise.
        wait: s, for the server to start.
        on_evaluation: Called with the number of evaluations so far.

    Raises:
        ConfigError: There is no server, or it has another number of atoms.
    """
    client = _connect(unix, host, port, wait)
    atoms.calc = calculator
    evaluations = 0
    try:
        for _ in client.irun(atoms, use_stress=bool(atoms.pbc.any())):
            evaluations += 1
            if on_evaluation is not None:
                on_evaluation(evaluations)
    except (ConnectionResetError, BrokenPipeError):
        pass  # a server that ends closes its socket, sometimes while we write to it
    except ValueError as error:
        if isinstance(error, CliffordSTFError):
            raise
        raise ConfigError(
            f"the structure given here has {len(atoms)} atoms and i-PI's has another number; use the file that i-PI "
            "is initialised from."
        ) from error
    finally:
        client.close()
    return evaluations


def _connect(unix: str | None, host: str, port: int, wait: float) -> SocketClient:
    """A client, as soon as there is a server."""
    end = time.monotonic() + wait
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # ASE leaves a socket open that cannot connect
            try:
                return SocketClient(host=host, port=port, unixsocket=unix)
            except OSError as error:
                reason = error.strerror or str(error)
        if time.monotonic() > end:
            address = f"the Unix socket '{unix}'" if unix is not None else f"{host}:{port}"
            raise ConfigError(
                f"no i-PI server listens at {address} ({reason}); start 'i-pi input.xml' first, and give the address "
                "of its ffsocket."
            )
        time.sleep(0.1)
