// The 3D viewer: controls, pointer, keyboard. Text is only ever set as text, never as markup.

function make(tag, properties = {}, children = []) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

const inMev = (value) => (1000 * value).toLocaleString("en", { maximumSignificantDigits: 3 });

class Viewer {
  constructor(root, data) {
    this.root = root;
    this.elements = data.elements;
    this.scenes = data.scenes;
    this.state = { rotation: null, zoom: 1, pan: [0, 0], arrow: 1, ratio: 1, byError: false,
      bonds: true, box: true, true: true, predicted: true, error: false };
    this.pointers = new Map();
    this.canvas = make("canvas", { tabIndex: 0 });
    this.canvas.setAttribute("role", "img");
    this.tip = make("div", { className: "tip", hidden: true });
    this.legend = make("div", { className: "bar legend" });
    this.controls = make("div", { className: "bar" });
    root.replaceChildren(this.controls, make("div", { className: "stage" }, [this.canvas, this.tip]), this.legend);
    this.context = this.canvas.getContext("2d");
    this.addControls();
    this.addPointer();
    this.addKeys();
    new ResizeObserver(() => this.schedule()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show(this.index));
    this.show(0);
  }

  addControls() {
    this.choice = make("select", {}, this.scenes.map((scene, k) => make("option", { value: k, textContent: scene.title })));
    this.choice.addEventListener("change", () => this.show(Number(this.choice.value)));
    const colour = make("select", {}, [
      make("option", { value: "element", textContent: "element" }), make("option", { value: "error", textContent: "force error" })]);
    colour.addEventListener("change", () => { this.state.byError = colour.value === "error"; this.describe(); this.schedule(); });
    this.colourChoice = colour;
    this.switches = {};
    const toggle = (name, text) => {
      const box = make("input", { type: "checkbox", checked: this.state[name] });
      box.addEventListener("change", () => { this.state[name] = box.checked; this.describe(); this.schedule(); });
      this.switches[name] = box;
      return make("label", {}, [box, text]);
    };
    const slider = make("input", { type: "range", min: -1.5, max: 1.5, step: 0.05, value: 0 });
    slider.addEventListener("input", () => { this.state.arrow = 2 ** Number(slider.value); this.schedule(); });
    this.controls.append(
      make("label", { className: "wide" }, ["structure", this.choice]), make("label", {}, ["colour by", colour]),
      toggle("true", "true force"), toggle("predicted", "predicted force"), toggle("error", "error (own scale)"),
      make("label", {}, ["arrows", slider]), toggle("bonds", "bonds"), toggle("box", "cell"));
  }

  show(index) {
    this.index = index;
    this.scene = this.scenes[index];
    this.facts = measure(this.scene, this.elements);
    this.choice.value = index;
    const style = getComputedStyle(document.documentElement);
    this.colours = Object.fromEntries(
      ["muted", "second", "third", "bad"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const hasTrue = this.scene.true.some((force) => force);
    const hasError = this.facts.error.some((force) => force);
    this.switches.true.disabled = !hasTrue;
    this.switches.predicted.disabled = !this.scene.predicted.some((force) => force);
    this.switches.error.disabled = !hasError;
    this.switches.box.disabled = this.scene.box.length === 0;
    this.colourChoice.disabled = !hasError;
    if (!hasError) { this.state.byError = false; this.colourChoice.value = "element"; }
    this.canvas.setAttribute("aria-label", `${this.scene.title}; drag or use the arrow keys to turn, wheel or + and - to zoom`);
    this.home();
    this.describe();
    this.draw();
  }

  home() {
    Object.assign(this.state, { rotation: this.scene.view, zoom: 1, pan: [0, 0] });
    this.schedule();
  }

  describe() {
    const chip = (className, background, text) => {
      const mark = make("span", { className });
      mark.style.background = background;
      return make("label", {}, [mark, text]);
    };
    const parts = [];
    if (this.state.byError) {
      parts.push(make("label", {}, ["0"]), chip("ramp", `linear-gradient(to right, ${RAMP.join(",")})`,
        `${inMev(this.facts.largestError)} meV/Å force error`));
    } else {
      for (const name of new Set(this.scene.symbols)) parts.push(chip("swatch", this.elements[name].colour, name));
    }
    const shown = (name) => this.state[name] && !this.switches[name].disabled;
    if (shown("true")) parts.push(chip("line", this.colours.third, "true force"));
    if (shown("predicted")) parts.push(chip("line", this.colours.second, "predicted force"));
    if (shown("error")) parts.push(chip("line", this.colours.bad, "predicted − true, own scale"));
    parts.push(make("label", {}, ["drag turns · wheel zooms · shift-drag moves · double click resets"]));
    this.legend.replaceChildren(...parts);
  }

  schedule() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0 || height === 0) return;
    const ratio = (this.state.ratio = window.devicePixelRatio || 1);
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.places = drawScene(this.context, width, height, this.scene, this.facts, this.elements, this.state, this.colours);
    this.root.dataset.drawnAtoms = this.places.length;
    this.root.dataset.scene = this.index;
    this.root.dataset.rotation = this.state.rotation.flat().map((value) => value.toFixed(3)).join(" ");
    this.root.dataset.zoom = this.state.zoom.toFixed(3);
  }

  zoomBy(factor) {
    this.state.zoom = Math.min(30, Math.max(0.2, this.state.zoom * factor));
    this.schedule();
  }

  addPointer() {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      try { canvas.setPointerCapture(event.pointerId); } catch { /* the pointer is gone already */ }
      this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
    });
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, (event) => this.pointers.delete(event.pointerId));
    }
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("dblclick", () => this.home());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-0.0015 * event.deltaY * (event.deltaMode === 1 ? 20 : 1)));
    }, { passive: false });
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) { this.point(event); return; }
    this.tip.hidden = true;
    const now = [event.clientX, event.clientY];
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
      const apart = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
      if (apart(before) > 0) this.zoomBy(apart(now) / apart(before));
    } else if (event.shiftKey) {
      this.state.pan = [this.state.pan[0] + now[0] - before[0], this.state.pan[1] + now[1] - before[1]];
    } else {
      this.state.rotation = turn(this.state.rotation, (now[0] - before[0]) * 0.01, (now[1] - before[1]) * 0.01);
    }
    this.pointers.set(event.pointerId, now);
    this.schedule();
  }

  point(event) {
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    let found = -1;
    (this.places || []).forEach((place, i) => {
      const inside = Math.hypot(place.x - x, place.y - y) <= place.radius;
      if (inside && (found < 0 || place.z > this.places[found].z)) found = i;
    });
    this.tip.hidden = found < 0;
    if (found < 0) return;
    this.tip.textContent = this.about(found);
    this.tip.style.left = `${Math.min(x + 14, frame.width - 190)}px`;
    this.tip.style.top = `${y > frame.height - 110 ? y - 100 : y + 14}px`;
  }

  about(i) {
    const mev = (force) => `${inMev(length(force))} meV/Å`;
    const [expected, found, error] = [this.scene.true[i], this.scene.predicted[i], this.facts.error[i]];
    const lines = [`${this.scene.symbols[i]}, atom ${i}`];
    if (expected) lines.push(`true |F| ${mev(expected)}`);
    if (found) lines.push(`predicted |F| ${mev(found)}`);
    if (error) lines.push(`error ${mev(error)}`);
    if (error && length(expected) > 0 && length(found) > 0) {
      const cosine = expected.reduce((sum, value, k) => sum + value * found[k], 0) / length(expected) / length(found);
      lines.push(`angle ${((Math.acos(Math.min(1, Math.max(-1, cosine))) * 180) / Math.PI).toPrecision(3)}°`);
    }
    return lines.join("\n");
  }

  addKeys() {
    const turns = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
    this.canvas.addEventListener("keydown", (event) => {
      if (turns[event.key]) this.state.rotation = turn(this.state.rotation, ...turns[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoomBy(1.15);
      else if (event.key === "-") this.zoomBy(1 / 1.15);
      else if (event.key === "0") this.home();
      else return;
      event.preventDefault();
      this.schedule();
    });
  }
}

const viewers = new Map();
for (const source of document.querySelectorAll('script[type="application/json"][data-for]')) {
  const root = document.getElementById(source.dataset.for);
  viewers.set(root.id, new Viewer(root, JSON.parse(source.textContent)));
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-show]");
  if (!button) return;
  const viewer = viewers.get(button.dataset.viewer);
  viewer.show(Number(button.dataset.show));
  viewer.root.scrollIntoView({ block: "nearest" });
});
document.documentElement.dataset.viewers = viewers.size;
