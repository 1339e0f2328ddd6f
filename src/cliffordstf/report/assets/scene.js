// Drawing of one structure on a canvas. View space: x to the right, y up, z towards the reader, in Å.

const multiply = (a, b) => a.map((row) => b[0].map((_, k) => row.reduce((sum, value, j) => sum + value * b[j][k], 0)));
const apply = (m, v) => m.map((row) => row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);
const add = (a, b, factor = 1) => a.map((value, k) => value + factor * b[k]);
const length = (v) => Math.hypot(...v);

function turn(rotation, dx, dy, dz = 0) {
  const [cx, sx, cy, sy, cz, sz] = [Math.cos(dy), Math.sin(dy), Math.cos(dx), Math.sin(dx), Math.cos(dz), Math.sin(dz)];
  const aboutX = [[1, 0, 0], [0, cx, -sx], [0, sx, cx]];
  const aboutY = [[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]];
  const aboutZ = [[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]];
  return multiply(aboutZ, multiply(aboutX, multiply(aboutY, rotation)));
}

// Quantities that depend on the structure alone: centre, extent, size of arrows, errors.
function measure(scene, elements) {
  const middle = (points) => [0, 1, 2].map((k) => points.reduce(
    ([low, high], p) => [Math.min(low, p[k]), Math.max(high, p[k])], [Infinity, -Infinity]).reduce((a, b) => a + b) / 2);
  const reachFrom = (centre, points) => points.reduce((most, p) => Math.max(most, length(add(p, centre, -1))), 0) + 0.6;
  const all = scene.positions.concat(scene.box.flat());
  const around = { all: middle(all), atoms: middle(scene.positions) };
  const sizeOf = { all: reachFrom(around.all, all), atoms: reachFrom(around.atoms, scene.positions) };
  // The whole box in view, unless most of it is vacuum, as around a slab: then the atoms matter more.
  const mostlyEmpty = scene.positions.length > 1 && sizeOf.all > 1.5 * sizeOf.atoms;
  const centre = mostlyEmpty ? around.atoms : around.all;
  const extent = mostlyEmpty ? 1.2 * sizeOf.atoms : sizeOf.all;
  const error = scene.predicted.map((f, i) => (f && scene.true[i] ? add(f, scene.true[i], -1) : null));
  const longest = (rows) => rows.reduce((most, f) => (f ? Math.max(most, length(f)) : most), 0);
  const sizes = { true: longest(scene.true), predicted: longest(scene.predicted), error: longest(error) };
  const reach = Math.min(3, Math.max(1.8, 0.5 * extent));
  const common = sizes.true || sizes.predicted;
  return {
    centre, extent, error, largestError: sizes.error,
    perForce: common > 0 ? reach / common : 0,
    perError: sizes.error > 0 ? (0.8 * reach) / sizes.error : 0,
    radii: scene.symbols.map((name) => 0.13 + 0.38 * elements[name].radius),
  };
}

const channels = (colour) => [1, 3, 5].map((k) => parseInt(colour.slice(k, k + 2), 16));
const mix = (a, b, t) => `rgb(${channels(a).map((value, k) => Math.round(value + (channels(b)[k] - value) * t)).join(",")})`;
const hex = (colour) => "#" + colour.match(/\d+/g).slice(0, 3).map((v) => Number(v).toString(16).padStart(2, "0")).join("");

const RAMP = ["#f3ead9", "#eda268", "#c8352b", "#6b0f1a"];
function rampColour(t) {
  const place = Math.min(Math.max(t, 0), 1) * (RAMP.length - 1);
  const k = Math.min(Math.floor(place), RAMP.length - 2);
  return hex(mix(RAMP[k], RAMP[k + 1], place - k));
}

function atomColours(scene, facts, elements, byError) {
  if (!byError) return scene.symbols.map((name) => elements[name].colour);
  return facts.error.map((e) => (e ? rampColour(length(e) / (facts.largestError || 1)) : "#8d949c"));
}

// Shaded balls are drawn once per colour and size and then copied.
const sprites = new Map();
function ball(colour, pixels) {
  const size = Math.max(2, Math.round(pixels));
  const key = colour + size;
  if (!sprites.has(key)) {
    if (sprites.size > 400) sprites.clear();
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 2 * size + 4;
    const context = canvas.getContext("2d");
    const middle = size + 2;
    const shade = context.createRadialGradient(middle - size * 0.35, middle - size * 0.4, size * 0.05, middle, middle, size);
    shade.addColorStop(0, mix(colour, "#ffffff", 0.75));
    shade.addColorStop(0.45, colour);
    shade.addColorStop(1, mix(colour, "#000000", 0.42));
    context.fillStyle = shade;
    context.strokeStyle = mix(colour, "#000000", 0.6);
    context.lineWidth = Math.max(1, size * 0.05);
    context.beginPath();
    context.arc(middle, middle, size, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
    sprites.set(key, canvas);
  }
  return sprites.get(key);
}

function stroke(context, from, to, width, colour) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(from[0], from[1]);
  context.lineTo(to[0], to[1]);
  context.stroke();
}

function drawArrow(context, from, to, width, colour) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const size = Math.hypot(dx, dy);
  if (size < 0.5) return;
  const head = Math.min(3.2 * width, 0.6 * size);
  const [ux, uy] = [dx / size, dy / size];
  const neck = [to[0] - ux * head, to[1] - uy * head];
  stroke(context, from, neck, width, colour);
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(to[0], to[1]);
  context.lineTo(neck[0] - uy * head * 0.5, neck[1] + ux * head * 0.5);
  context.lineTo(neck[0] + uy * head * 0.5, neck[1] - ux * head * 0.5);
  context.fill();
}

// Draws everything from back to front; returns where the atoms are on the canvas, for the pointer.
function drawScene(context, width, height, scene, facts, elements, state, colours) {
  const scale = ((0.5 * Math.min(width, height)) / facts.extent) * state.zoom;
  const eye = 5 * facts.extent;
  const project = (v) => {
    const near = eye / Math.max(eye - v[2], 0.05 * eye);
    return [width / 2 + state.pan[0] + v[0] * scale * near, height / 2 + state.pan[1] - v[1] * scale * near, near];
  };
  const view = (p) => apply(state.rotation, add(p, facts.centre, -1));
  const atoms = scene.positions.map(view);
  const paint = atomColours(scene, facts, elements, state.byError);
  const items = [];
  const segment = (a, b, draw) => items.push([(a[2] + b[2]) / 2, () => draw(project(a), project(b))]);

  atoms.forEach((v, i) => items.push([v[2], () => {
    const [x, y, near] = project(v);
    const pixels = facts.radii[i] * scale * near;
    const sprite = ball(paint[i], pixels * state.ratio);
    const side = sprite.width / state.ratio;
    context.drawImage(sprite, x - side / 2, y - side / 2, side, side);
  }]));
  // A bond starts at the surface of its atom: what lies inside the ball must not show through it.
  const surface = (i, to) => {
    const way = add(to, atoms[i], -1);
    return add(atoms[i], way, Math.min(1, (0.9 * facts.radii[i]) / (length(way) || 1)));
  };
  const half = (i, to) => segment(surface(i, to), to, (a, b) => {
    const colour = paint[i];
    stroke(context, a, b, 0.17 * scale * a[2], mix(colour, "#000000", 0.55));
    stroke(context, a, b, 0.12 * scale * a[2], mix(colour, "#000000", 0.12));
  });
  if (state.bonds) {
    for (const [i, j] of scene.bonds) {
      const middle = add(atoms[i], atoms[j]).map((value) => value / 2);
      half(i, middle);
      half(j, middle);
    }
    for (const [i, ...way] of scene.stubs) half(i, add(atoms[i], apply(state.rotation, way)));
  }
  if (state.box) {
    for (const [start, end] of scene.box.map((edge) => edge.map(view))) {
      const way = add(end, start, -1);
      for (let k = 0; k < 12; k += 1) {
        segment(add(start, way, k / 12), add(start, way, (k + 1) / 12), (a, b) => stroke(context, a, b, 1.2, colours.muted));
      }
    }
  }
  const arrows = (forces, perUnit, pixels, colour) => forces.forEach((force, i) => {
    if (!force || perUnit === 0) return;
    const size = length(force);
    if (size === 0) return;
    const way = apply(state.rotation, force);
    const root = add(atoms[i], way, (0.85 * facts.radii[i]) / size);
    const tip = add(root, way, perUnit * state.arrow);
    segment(root, tip, (a, b) => drawArrow(context, a, b, Math.max(1.5, pixels * scale * a[2]), colour));
  });
  // The wide arrow of the true force comes first, so that the slim predicted one lies on it.
  if (state.true) arrows(scene.true, facts.perForce, 0.13, colours.third);
  if (state.predicted) arrows(scene.predicted, facts.perForce, 0.06, colours.second);
  if (state.error) arrows(facts.error, facts.perError, 0.08, colours.bad);

  context.clearRect(0, 0, width, height);
  context.lineCap = "butt";
  items.sort((a, b) => a[0] - b[0]).forEach((item) => item[1]());
  return atoms.map((v, i) => {
    const [x, y, near] = project(v);
    return { x, y, z: v[2], radius: facts.radii[i] * scale * near };
  });
}
