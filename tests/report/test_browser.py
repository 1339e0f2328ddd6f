"""The page in a real browser: the viewer draws, turns, zooms and switches; tables sort; no script fails."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cliffordstf.report import ReportInputs, write_report
from tests.report import samples

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--virtual-time-budget=4000",
    "--window-size=1280,2000",
    "--dump-dom",
]

# A browser without a screen hardly ever asks for a frame; time passes all the same.
CLOCK = "<script>window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);</script>"

# Runs after the page's own script, as a reader's hands would, and leaves what it saw in attributes.
HANDS = """
<script>
const seen = document.documentElement.dataset;
const viewer = document.querySelector(".viewer");
const canvas = viewer.querySelector("canvas");
const painted = () => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let k = 3; k < pixels.length; k += 4) count += pixels[k] > 0;
  return count;
};
const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const mouse = (kind, x, y) => canvas.dispatchEvent(
  new PointerEvent(kind, { pointerId: 1, clientX: x, clientY: y, bubbles: true }));
(async () => {
  seen.painted = painted();
  seen.rotationBefore = viewer.dataset.rotation;
  mouse("pointerdown", 300, 300); mouse("pointermove", 360, 320); mouse("pointerup", 360, 320);
  await frame();
  seen.rotationAfter = viewer.dataset.rotation;
  canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -300, cancelable: true }));
  await frame();
  seen.zoomAfter = viewer.dataset.zoom;
  seen.paintedZoomed = painted();
  canvas.dispatchEvent(new MouseEvent("dblclick"));
  await frame();
  seen.rotationReset = viewer.dataset.rotation;
  seen.zoomReset = viewer.dataset.zoom;
  document.querySelector('button[data-show="2"]').click();
  seen.sceneAfter = viewer.dataset.scene;
  const colour = viewer.querySelectorAll("select")[1];
  colour.value = "error"; colour.dispatchEvent(new Event("change"));
  for (const box of viewer.querySelectorAll("input[type=checkbox]:not(:disabled)")) box.click();
  await frame();
  seen.legend = viewer.querySelector(".legend").textContent;
  const box = canvas.getBoundingClientRect();
  let words = "";
  for (let x = 0; x < box.width && !words; x += 4) for (let y = 0; y < box.height && !words; y += 4) {
    mouse("pointermove", box.left + x, box.top + y);
    const tip = viewer.querySelector(".tip");
    if (!tip.hidden) words = tip.textContent;
  }
  seen.tip = words;
  const table = [...document.querySelectorAll("table.sortable")].pop();
  const head = [...table.tHead.rows[0].cells].find((cell) => cell.textContent.startsWith("energy error (meV)"));
  const column = () => [...table.tBodies[0].rows].map((row) => row.cells[head.cellIndex].dataset.value).join(" ");
  head.querySelector("button").click(); seen.down = column();
  head.querySelector("button").click(); seen.up = column();
  seen.finished = "yes";
})().catch((error) => { seen.scriptError = String(error); });
</script>
"""


# How wide the page is, and what sticks out of the window although it is in no box that scrolls.
RULER = """
<script>
const found = {};
for (const fold of document.querySelectorAll("details")) fold.open = true;
const wide = document.documentElement.clientWidth;
const inBox = (node) => node.closest(".scroll, pre, .viewer, svg") !== null;
const out = [...document.body.querySelectorAll("*")].filter(
  (node) => !inBox(node) && node.getBoundingClientRect().right > wide + 0.5);
found.window = window.innerWidth;
found.content = document.documentElement.scrollWidth;
found.outside = out.map((node) => `${node.tagName}.${node.className}`).join(" ");
found.scrolling = [...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth).length;
found.finished = "yes";
parent.postMessage(found, "*");
</script>
"""
# A window of the browser has a least width, that of a phone is less; a frame can have any.
FRAME = """<!DOCTYPE html><html lang="en">
<script>
const seen = document.documentElement.dataset;
window.addEventListener("message", (event) => Object.assign(seen, event.data));
</script>
<iframe src="index.html" style="width: {width}px; height: 1500px; border: 0"></iframe></html>
"""


def visit(page: Path, profile: Path) -> dict[str, str]:
    """Open a page and return the attributes of its root element."""
    assert BROWSER is not None
    command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", page.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    root = re.search(r"<html[^>]*>", result.stdout)
    assert root is not None, result.stderr[-2000:]
    return dict(re.findall(r'([\w-]+)="([^"]*)"', root.group()))


@pytest.mark.skipif(BROWSER is None, reason="no browser: put chromium on PATH to test the report's viewer in it")
def test_the_page_works_in_a_browser(tmp_path: Path) -> None:
    frames = samples.molecule_frames(12)
    sections = [samples.section("test set", frames), samples.section("crystals", samples.crystal_frames(6))]
    path = write_report(samples.inputs(sections), tmp_path)
    path.write_text(path.read_text().replace("</head>", CLOCK + "</head>").replace("</body>", HANDS + "</body>"))
    seen = visit(path, tmp_path / "profile")

    assert "data-script-error" not in seen, seen["data-script-error"]
    assert seen["data-viewers"] == "2"
    assert seen["data-finished"] == "yes"
    assert int(seen["data-painted"]) > 5000
    assert seen["data-rotation-before"] != seen["data-rotation-after"]
    assert float(seen["data-zoom-after"]) > 1.3
    assert int(seen["data-painted-zoomed"]) > 1.2 * int(seen["data-painted"])
    assert seen["data-rotation-reset"] == seen["data-rotation-before"]
    assert float(seen["data-zoom-reset"]) == 1
    assert seen["data-scene-after"] == "2"
    assert "meV/Å force error" in seen["data-legend"]
    assert re.match(r"[CHO], atom \d", seen["data-tip"])
    down, up = ([float(word) for word in seen[name].split()] for name in ("data-down", "data-up"))
    assert down == sorted(down, reverse=True)
    assert up == sorted(up)
    assert len(down) == 6


@pytest.mark.skipif(BROWSER is None, reason="no browser: put chromium on PATH to test the report's viewer in it")
def test_the_hook_sees_a_script_that_fails(tmp_path: Path) -> None:
    section = samples.section("energies", samples.without_forces(samples.molecule_frames(3)))
    path = write_report(samples.inputs([section]), tmp_path)
    seen = visit(path, tmp_path / "profile")
    assert "data-script-error" not in seen
    assert seen["data-viewers"] == "1"
    path.write_text(path.read_text().replace('"symbols":', '"cymbals":'))
    assert "undefined" in visit(path, tmp_path / "profile")["data-script-error"]


def measure(page: Path, width: int) -> dict[str, str]:
    """What the ruler finds on a page in a window of some width, pixels."""
    text = page.read_text().replace("</head>", CLOCK + "</head>").replace("</body>", RULER + "</body>")
    page.write_text(text)
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(width=width))
    return visit(frame, page.parent / "profile")


def long_names() -> ReportInputs:
    """A page on which everything that has a name has a long one."""
    name = "bulk_amorphous_quench_1200K_to_300K_second_batch.extxyz"
    total = samples.with_total_energies(samples.evaluation(samples.config_type_frames(4)))
    sections = [
        samples.section_of(f"test set {name}", total),
        samples.section(name * 2, samples.molecule_frames(4), noise=40.0),
    ]
    return samples.inputs(
        sections,
        title=f"cliffordstf: {name}",
        warnings=[f"3 of 120 structures of {name * 2} are also in the training set"] * 12,
        notes=[name * 2],
        comparison=[{"name": name, "energy_mae_mev": 1234567.8, "parameters": 123456789, name: name}],
        config={"data": {"train": name * 3}},
        provenance={"command": f"cliffordstf train {name * 2}", name: name, "data": {"file": name * 2}},
        extra_figures=[(name * 2, '<svg width="900" height="300"/>')],
    )


@pytest.mark.skipif(BROWSER is None, reason="no browser: put chromium on PATH to test the report's layout in it")
@pytest.mark.parametrize("width", [320, 360, 768])
def test_the_page_fits_a_narrow_window(width: int, tmp_path: Path) -> None:
    path = write_report(long_names(), tmp_path)
    seen = measure(path, width)
    assert seen["data-finished"] == "yes"
    assert int(seen["data-window"]) == width
    assert seen["data-outside"] == ""
    assert int(seen["data-content"]) <= width
    assert int(seen["data-scrolling"]) > 0  # Wide tables scroll in boxes of their own.


@pytest.mark.skipif(BROWSER is None, reason="no browser: put chromium on PATH to test the report's layout in it")
def test_the_ruler_sees_what_does_not_fit(tmp_path: Path) -> None:
    path = write_report(samples.inputs([]), tmp_path)
    wide = '<p class="too-wide" style="width: 500px">wide</p>'
    path.write_text(path.read_text().replace("</main>", wide + "</main>"))
    seen = measure(path, 320)
    assert seen["data-outside"] == "P.too-wide"
    assert int(seen["data-content"]) > 320
