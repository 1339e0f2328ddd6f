"""Several processes: batches divided by edges, the end of one of them, another number of them after a restart."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from cliffordstf.train.parallel import balanced
from cliffordstf.train.run import resume

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs gloo and POSIX signals")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def start(words: list[str], ranks: int, folder: Path) -> "list[subprocess.Popen[str]]":
    """Processes as torchrun or srun start them, without anyone who watches over them."""
    common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    environment = {**os.environ, **common, "OMP_NUM_THREADS": "1"}
    processes = []
    for rank in range(ranks):
        with (folder / f"out{rank}").open("w") as out, (folder / f"err{rank}").open("w") as err:
            command = [sys.executable, "-m", "cliffordstf", "train", *words]
            own = {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            processes.append(subprocess.Popen(command, env=own, stdout=out, stderr=err, text=True))
    return processes


def finish(processes: "list[subprocess.Popen[str]]", seconds: float = 120) -> list[int]:
    return [process.wait(timeout=seconds) for process in processes]


def history(folder: Path) -> list[list[float]]:
    rows = [line.split(",") for line in (folder / "history.csv").read_text().splitlines()]
    wanted = [rows[0].index(name) for name in ("step", "train_loss", "valid_force_mae_mev_per_a")]
    return [[float(row[place]) for place in wanted] for row in rows[1:]]


def words(options: list[str], folder: Path, *more: str) -> list[str]:
    """Options of the fixture as those of the command, whose data file comes first."""
    data = next(option for option in options if option.startswith("data.train="))
    rest = [option for option in options if option != data]
    return [data.removeprefix("data.train="), "--out", str(folder), *rest, "precision=float64", *more]


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_parts_of_a_batch_cost_about_the_same(parts):
    generator = np.random.default_rng(0)
    costs = generator.integers(10, 1000, size=64).tolist()
    found = balanced(list(range(100, 164)), costs, parts)
    assert sorted(index for part in found for index in part) == list(range(100, 164))
    sums = [sum(costs[index - 100] for index in part) for part in found]
    assert max(sums) - min(sums) <= max(costs)
    assert max(sums) < 1.1 * sum(costs) / parts
    plain = [sum(costs[rank::parts]) for rank in range(parts)]
    assert parts == 1 or max(sums) < max(plain)
    assert all(part == sorted(part) for part in found)


def test_two_processes_learn_what_one_does(options, tmp_path):
    for ranks in (1, 2):
        assert finish(start(words(options, tmp_path / f"run{ranks}"), ranks, tmp_path)) == [0] * ranks
    np.testing.assert_allclose(history(tmp_path / "run2"), history(tmp_path / "run1"), rtol=1e-6)


def wait_for_steps(folder: Path, processes: "list[subprocess.Popen[str]]") -> None:
    end = time.monotonic() + 120
    while not (folder / "history.csv").is_file() and time.monotonic() < end:
        assert all(process.poll() is None for process in processes)
        time.sleep(0.05)


@pytest.mark.parametrize("victim", [0, 1])
def test_when_one_process_is_killed_the_other_says_so_and_ends(options, victim, tmp_path):
    folder = tmp_path / "run"
    processes = start(words(options, folder, "epochs=100000", "checkpoint_minutes=0.001"), 2, tmp_path)
    wait_for_steps(folder, processes)
    processes[victim].send_signal(signal.SIGKILL)
    processes[victim].wait()
    killed = time.monotonic()
    other = 1 - victim
    assert processes[other].wait(timeout=60) == 2
    assert time.monotonic() - killed < 60
    said = " ".join((tmp_path / f"err{other}").read_text().split())
    assert f"error: another of the 2 processes of this training ended or cannot be reached, so process {other}" in said
    assert "Traceback" not in said
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["epochs"] == 100000
    steps = history(folder)[-1][0]
    result = resume(folder, epochs=int(steps / 4) + 50)
    assert result is not None
    assert result.history[-1]["step"] > steps


def test_a_run_goes_on_with_another_number_of_processes(options, tmp_path):
    assert finish(start(words(options, tmp_path / "whole"), 1, tmp_path)) == [0]
    folder = tmp_path / "parts"
    assert finish(start(words(options, folder, "epochs=2"), 2, tmp_path)) == [0, 0]
    assert resume(folder, epochs=4) is not None
    # Learning rates of the first half differ: the whole run knows that it has four epochs.
    assert [row[0] for row in history(folder)][-1] == history(tmp_path / "whole")[-1][0]
    again = start(["--resume", str(folder), "--epochs", "6"], 2, tmp_path)
    assert finish(again) == [0, 0]
    assert history(folder)[-1][0] == 1.5 * history(tmp_path / "whole")[-1][0]


def test_a_signal_to_any_process_stops_all_with_a_checkpoint(options, tmp_path):
    folder = tmp_path / "run"
    processes = start(words(options, folder, "epochs=100000"), 2, tmp_path)
    wait_for_steps(folder, processes)
    processes[1].send_signal(signal.SIGTERM)
    assert finish(processes, 60)[0] == 143
    assert (folder / "last.ckpt").is_file()
    assert "stopped; continue with" in (tmp_path / "out0").read_text()


def test_torchrun_ends_within_a_minute_when_a_process_is_killed(options, tmp_path):
    folder = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(free_port()),
    ]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "-m", "cliffordstf", "train", *words(options, folder, "epochs=100000")],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
        )
    wait_for_steps(folder, [process])
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.is_file():
        process.kill()
        pytest.skip("the system does not list children")
    workers = [int(word) for word in children.read_text().split()]
    ranks = {pid: rank_of(pid) for pid in workers}
    os.kill(next(pid for pid, rank in ranks.items() if rank == 1), signal.SIGKILL)
    killed = time.monotonic()
    assert process.wait(timeout=60) != 0
    assert time.monotonic() - killed < 60
    assert (folder / "last.ckpt").is_file()
    assert resume(folder, epochs=int(history(folder)[-1][0] / 4) + 20) is not None


def rank_of(pid: int) -> int:
    found = re.search(rb"\0RANK=(\d+)", Path(f"/proc/{pid}/environ").read_bytes())
    return -1 if found is None else int(found.group(1))
