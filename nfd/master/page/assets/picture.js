// The picture: one cell for each node on a canvas, so that 5,000 of them are one element.

import { element } from "./bars_and_tables.js";

const LARGEST = 119, SMALLEST = 5, TALLEST = 364, NAMED = 72, FLAT = 0.76, PIPPED = 26;
export const COLOURS = 20;

/** Colours by value: the first ones get one each, the rest share the last; nodes without a value have none. */
export function colours(values) {
  return new Map(values.map((value, index) => [value, Math.min(index, COLOURS)]));
}

export class Picture {
  /** `opened(node)` is told which node was chosen. */
  constructor(canvas, tip, opened) {
    this.canvas = canvas;
    this.tip = tip;
    this.opened = opened;
    this.order = [];
    this.cursor = -1;
    this.at = null;
    canvas.addEventListener("pointermove", (event) => this.point(this.under(event)));
    canvas.addEventListener("pointerleave", () => this.point(-1));
    canvas.addEventListener("click", (event) => this.open(this.under(event)));
    canvas.addEventListener("blur", () => this.point(-1));
    canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  /** `about(node)` is a line about it; `gpus(node)` how many it has, how many of them can be used, and MIG devices. */
  show(fleet, { chosen, column, palette, about, gpus }) {
    Object.assign(this, { fleet, chosen, column, palette, about, gpus });
    const rank = (node) => palette.get(column[node]) ?? COLOURS + 1;
    this.order = fleet.nodes.map((name, node) => node).sort((one, other) => rank(one) - rank(other) || one - other);
    this.draw();
  }

  draw() {
    if (!this.fleet) return;
    const width = this.canvas.parentElement.clientWidth, scale = window.devicePixelRatio || 1;
    let size = LARGEST;
    const tall = () => (size >= NAMED ? FLAT * size : size);
    while (size > SMALLEST && Math.ceil(this.order.length / Math.floor(width / size)) * tall() > TALLEST) size -= 1;
    this.columns = Math.max(1, Math.floor(width / size));
    this.size = width / this.columns > size * 1.4 ? size : width / this.columns;
    this.tall = (tall() / size) * this.size;
    const height = Math.max(1, Math.ceil(this.order.length / this.columns)) * this.tall;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.height = `${height}px`;
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(scale, scale);
    const style = getComputedStyle(this.canvas);
    this.paint = (name) => style.getPropertyValue(name).trim();
    this.font = style.fontFamily;
    this.order.forEach((node, place) => this.cell(node, place));
    if (this.cursor >= this.order.length) this.cursor = -1;
    if (this.cursor >= 0) this.ring(this.cursor);
  }

  cell(node, place) {
    const gap = this.size > 20 ? 6 : this.size > 9 ? 2 : 1, side = this.size - gap, low = this.tall - gap, pen = this.pen;
    const [x, y] = this.corner(place);
    const colour = this.palette.get(this.column[node]);
    const paint = this.paint(colour === undefined ? "--blank" : `--c${colour}`);
    const detailed = this.size >= PIPPED;
    pen.globalAlpha = this.chosen[node] ? 1 : 0.16;
    this.box(x, y, side, low, Math.min(9, side / 4));
    pen.fillStyle = paint;
    if (detailed) pen.globalAlpha *= 0.2;
    pen.fill();
    pen.globalAlpha = this.chosen[node] ? 1 : 0.16;
    if (detailed) this.pips(node, x, y, side, paint);
    if (this.size >= NAMED) {
      pen.fillStyle = this.paint("--ink");
      pen.font = `10.5px ${this.font}`;
      pen.fillText(shortened(this.fleet.nodes[node], pen, side - 14), x + 8, y + low - 10);
    }
    pen.globalAlpha = 1;
  }

  /** A square for each accelerator, hollow for those that cannot be used; a narrow bar for each MIG device. */
  pips(node, x, y, side, paint) {
    const [gpus, usable, slices] = this.gpus(node), pen = this.pen, named = this.size >= NAMED, present = gpus + slices;
    const across = Math.max(Math.ceil(present / 2), named ? 8 : 4), room = side - (named ? 16 : 8);
    const step = room / across, pip = Math.max(2, step - Math.max(1, step * 0.28)), left = named ? 8 : 4;
    pen.fillStyle = pen.strokeStyle = paint;
    for (let index = 0; index < Math.min(present, 64); index += 1) {
      const px = x + left + (index % across) * step, py = y + left + Math.floor(index / across) * step;
      this.box(px, py, index < gpus ? pip : pip / 2.5, pip, pip / 4);
      if (index < usable || index >= gpus) pen.fill();
      else pen.stroke();
    }
  }

  box(x, y, width, height, radius) {
    this.pen.beginPath();
    this.pen.roundRect(x, y, width, height, radius);
  }

  ring(place) {
    const [x, y] = this.corner(place), gap = this.size > 20 ? 6 : 1;
    this.pen.lineWidth = 2;
    this.pen.strokeStyle = this.paint("--focus");
    this.box(x - 1, y - 1, this.size - gap + 2, this.tall - gap + 2, Math.min(10, this.size / 4));
    this.pen.stroke();
    this.pen.lineWidth = 1;
  }

  corner(place) {
    return [(place % this.columns) * this.size + 1, Math.floor(place / this.columns) * this.tall + 1];
  }

  under(event) {
    if (!this.fleet) return -1;
    const column = Math.floor(event.offsetX / this.size), row = Math.floor(event.offsetY / this.tall);
    const place = row * this.columns + column;
    return column < this.columns && place < this.order.length ? place : -1;
  }

  /** Arrow keys go from node to node, Enter opens one. */
  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns };
    if (event.key === "Enter" || event.key === " ") this.open(this.cursor);
    else if (event.key in steps && this.order.length) {
      const next = this.cursor < 0 ? 0 : this.cursor + steps[event.key];
      if (next >= 0 && next < this.order.length) this.point(next);
    } else if (event.key === "Home" || event.key === "End") this.point(event.key === "Home" ? 0 : this.order.length - 1);
    else return;
    event.preventDefault();
  }

  point(place) {
    if (place === this.cursor) return;
    this.cursor = place;
    this.draw();
    this.tip.hidden = place < 0;
    if (place < 0) return;
    const node = this.order[place], [x, y] = this.corner(place);
    this.tip.replaceChildren(element("b", {}, this.fleet.nodes[node]), element("span", {}, this.about(node)));
    const limit = this.canvas.parentElement.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(x, limit))}px`;
    this.tip.style.top = `${y + this.tall + 2}px`;
  }

  open(place) {
    if (place >= 0) this.opened(this.order[place]);
  }
}

/** The end of a name tells more than its beginning. */
function shortened(text, pen, width) {
  let start = 0;
  const cut = () => (start ? `…${text.slice(start)}` : text);
  while (start < text.length - 1 && pen.measureText(cut()).width > width) start += 1;
  return cut();
}
