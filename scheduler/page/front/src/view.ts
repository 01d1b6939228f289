// The canvas with its camera: it is moved by pointer, wheel, fingers and keys, and drawn once a frame at most.
import { placeOf, type Box, type Tile } from "./layout";
import { Painter, type Camera, type Picture, type Place } from "./paint";

const MOST_SCALE = 14;
const CLICK = 4;
const STEP = 1.35;
const MOVE_MILLISECONDS = 220;

export interface Listeners {
  /** `box` is the outline of the place, in pixels of the page. */
  hover(place: Place | null, x: number, y: number, box: Box | null): void;
  select(place: Place | null): void;
}

export class MapView {
  private camera: Camera = { x: 0, y: 0, scale: 1 };
  private frame = 0;
  private moving = 0;
  private isFitted = true;
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private dragged = 0;
  private readonly context: CanvasRenderingContext2D;
  private readonly observer: ResizeObserver;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private picture: Picture,
    private readonly listeners: Listeners,
  ) {
    const context = canvas.getContext("2d", { alpha: false });
    if (!context) throw new Error("this browser has no canvas");
    this.context = context;
    canvas.addEventListener("wheel", this.wheel, { passive: false });
    canvas.addEventListener("pointerdown", this.down);
    canvas.addEventListener("pointermove", this.move);
    canvas.addEventListener("pointerup", this.up);
    canvas.addEventListener("pointercancel", this.up);
    canvas.addEventListener("pointerleave", this.leave);
    canvas.addEventListener("dblclick", this.double);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(canvas);
    this.resize();
    this.paint();
  }

  close(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    cancelAnimationFrame(this.moving);
  }

  get aspect(): number {
    return this.canvas.clientWidth / Math.max(1, this.canvas.clientHeight);
  }

  show(picture: Picture): void {
    const isOther = picture.layout !== this.picture.layout;
    const isRegrouped = picture.grouping !== this.picture.grouping;
    this.picture = picture;
    this.listeners.hover(null, 0, 0, null);
    if (isOther && (isRegrouped || this.isFitted)) this.fit(false);
    this.draw();
  }

  fit(isSmooth = true): void {
    const { width, height } = this.picture.layout;
    this.go(this.cameraFor({ x: 0, y: 0, w: width, h: height }, 20, 5), isSmooth);
    this.isFitted = true;
  }

  /** Shows everything at once, without waiting for a frame. */
  paintWhole(): void {
    this.fit(false);
    this.paint();
  }

  zoom(steps: number): void {
    this.zoomAt(this.canvas.clientWidth / 2, this.canvas.clientHeight / 2, STEP ** steps);
  }

  pan(x: number, y: number): void {
    this.go({ ...this.camera, x: this.camera.x + x / this.camera.scale, y: this.camera.y + y / this.camera.scale }, false);
  }

  /** Moves as little as needed until a box is well in sight; `isClose` zooms in until its texts can be read. */
  reveal(box: Box, isClose: boolean): void {
    const { camera, canvas } = this;
    const scale = isClose && box.h * camera.scale < 90 ? Math.min(MOST_SCALE, 120 / box.h) : camera.scale;
    const [w, h] = [canvas.clientWidth / scale, canvas.clientHeight / scale];
    const margin = 24 / scale;
    const isSeen =
      scale === camera.scale &&
      box.x > camera.x + margin &&
      box.y > camera.y + margin &&
      box.x + box.w < camera.x + w - margin &&
      box.y + box.h < camera.y + h - margin;
    if (!isSeen) this.go({ x: box.x + box.w / 2 - w / 2, y: box.y + box.h / 2 - h / 2, scale }, true);
  }

  frameTiles(tiles: Tile[]): void {
    if (!tiles.length) return;
    const x = Math.min(...tiles.map((tile) => tile.x));
    const y = Math.min(...tiles.map((tile) => tile.y));
    const w = Math.max(...tiles.map((tile) => tile.x + tile.w)) - x;
    const h = Math.max(...tiles.map((tile) => tile.y + tile.h)) - y;
    this.go(this.cameraFor({ x, y, w, h }, 40, 4), true);
  }

  private cameraFor(box: Box, margin: number, most: number): Camera {
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const scale = Math.min(most, Math.max(0.02, Math.min((w - 2 * margin) / Math.max(1, box.w), (h - 2 * margin) / Math.max(1, box.h))));
    return { scale, x: box.x + box.w / 2 - w / scale / 2, y: box.y + box.h / 2 - h / scale / 2 };
  }

  private go(to: Camera, isSmooth: boolean): void {
    cancelAnimationFrame(this.moving);
    this.listeners.hover(null, 0, 0, null);
    this.isFitted = false;
    if (!isSmooth || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.camera = to;
      this.draw();
      return;
    }
    const from = this.camera;
    const began = performance.now();
    const step = (now: number): void => {
      const part = Math.min(1, (now - began) / MOVE_MILLISECONDS);
      const eased = 1 - (1 - part) ** 3;
      const scale = from.scale * (to.scale / from.scale) ** eased;
      this.camera = { scale, x: from.x + (to.x - from.x) * eased, y: from.y + (to.y - from.y) * eased };
      if (part >= 1) this.camera = to;
      else this.moving = requestAnimationFrame(step);
      this.draw();
    };
    this.moving = requestAnimationFrame(step);
  }

  private zoomAt(x: number, y: number, factor: number): void {
    const { camera } = this;
    const scale = Math.min(MOST_SCALE, Math.max(this.leastScale, camera.scale * factor));
    this.go({ scale, x: camera.x + x / camera.scale - x / scale, y: camera.y + y / camera.scale - y / scale }, false);
  }

  private get leastScale(): number {
    const { width, height } = this.picture.layout;
    return 0.5 * Math.min(this.canvas.clientWidth / Math.max(1, width), this.canvas.clientHeight / Math.max(1, height), 2);
  }

  private draw(): void {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { width: w, height: h } = this.canvas;
    new Painter(this.context, this.picture, this.camera, { w, h, ratio: w / Math.max(1, this.canvas.clientWidth) }).paint();
  }

  /** The canvas is emptied by its new size, so it is painted at once. */
  private resize(): void {
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    const width = Math.max(1, Math.round(this.canvas.clientWidth * ratio));
    const height = Math.max(1, Math.round(this.canvas.clientHeight * ratio));
    if (width === this.canvas.width && height === this.canvas.height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    if (this.isFitted) this.fit(false);
    this.paint();
  }

  private placeAt(x: number, y: number): Place | null {
    const [at, down] = [this.camera.x + x / this.camera.scale, this.camera.y + y / this.camera.scale];
    for (const group of this.picture.layout.groups) {
      if (!isIn(group, at, down)) continue;
      const tile = group.tiles.find((each) => isIn(each, at, down));
      if (tile) return { tile, cell: tile.cells.find((cell) => isIn(placeOf(tile, cell, this.camera.scale), at, down)) ?? null };
    }
    return null;
  }

  private boxOf({ tile, cell }: Place): Box {
    const { x, y, scale } = this.camera;
    const box = cell ? placeOf(tile, cell, scale) : tile;
    return { x: (box.x - x) * scale, y: (box.y - y) * scale, w: box.w * scale, h: box.h * scale };
  }

  private readonly wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
    this.zoomAt(event.offsetX, event.offsetY, Math.exp((-event.deltaY * lines) / (event.ctrlKey ? 100 : 500)));
  };

  private readonly down = (event: PointerEvent): void => {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    if (this.pointers.size === 1) this.dragged = 0;
  };

  private readonly move = (event: PointerEvent): void => {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      const place = this.placeAt(event.offsetX, event.offsetY);
      this.listeners.hover(place, event.offsetX, event.offsetY, place?.cell ? this.boxOf(place) : null);
      return;
    }
    const now = { x: event.offsetX, y: event.offsetY };
    this.dragged += Math.hypot(now.x - before.x, now.y - before.y);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, now);
    if (other) {
      const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      this.zoomAt((now.x + other.x) / 2, (now.y + other.y) / 2, factor);
    }
    if (this.dragged > CLICK) {
      const part = other ? 0.5 : 1;
      this.pan((before.x - now.x) * part, (before.y - now.y) * part);
      this.canvas.dataset.moving = "yes";
    }
  };

  private readonly up = (event: PointerEvent): void => {
    const isKnown = this.pointers.delete(event.pointerId);
    delete this.canvas.dataset.moving;
    if (!isKnown || event.type === "pointercancel" || this.dragged > CLICK || this.pointers.size) return;
    this.listeners.select(this.placeAt(event.offsetX, event.offsetY));
  };

  private readonly leave = (): void => this.listeners.hover(null, 0, 0, null);

  private readonly double = (event: MouseEvent): void => this.zoomAt(event.offsetX, event.offsetY, STEP ** 3);
}

const isIn = (box: Box, x: number, y: number): boolean => x >= box.x && y >= box.y && x <= box.x + box.w && y <= box.y + box.h;
