"use strict";
// The console's page. What it shows comes from clients in part (names of users, programs, tensors),
// so text goes into the page as text only.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const TOKEN = "tensord-token";
const POLL_MS = 1000;

// ---- Making elements ----

function make(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Leaves alone what is the same, so that a selection stays.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function empty(text, ...more) {
  return make("p", { className: "empty" }, text, ...more);
}

// ---- Numbers with units ----

function bytes(value) {
  value = Number(value);
  if (value < 1024) return `${Math.round(value)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = -1;
  do { value /= 1024; ++unit; } while (value >= 1023.95 && unit < units.length - 1);
  return `${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${units[unit]}`;
}

function nanoseconds(value) {
  const units = [["s", 1e9], ["ms", 1e6], ["µs", 1e3]];
  if (value >= 60e9) return duration(value / 1e6);
  for (const [unit, size] of units) {
    if (value >= size) return `${significant(value / size)} ${unit}`;
  }
  return `${Math.round(value)} ns`;
}

function significant(value) {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

function duration(ms) {
  const seconds = Math.floor(Number(ms) / 1000);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = Math.max(0, parts.findIndex(([size]) => seconds >= size));
  if (seconds < 1) return "0 s";
  const [size, unit] = parts[first], whole = Math.floor(seconds / size);
  const rest = parts[first + 1] && Math.floor((seconds % size) / parts[first + 1][0]);
  return rest ? `${whole} ${unit} ${rest} ${parts[first + 1][1]}` : `${whole} ${unit}`;
}

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const count = (value) => grouped.format(Number(value));
const percent = (part) => (part > 0 && part < 0.0005 ? "<0.1 %" : `${(100 * part).toFixed(part > 0 && part < 0.0995 ? 1 : 0)} %`);
const rate = (value) => (value === null ? "–" : `${value > 0 && value < 9.95 ? value.toFixed(1) : count(value)}/s`);
const flow = (value) => (value === null ? "–" : value < 1 ? "0 B/s" : `${bytes(value)}/s`);
const plural = (n, one, many = `${one}s`) => `${count(n)} ${Number(n) === 1 ? one : many}`;
function clock(ms) {
  const date = new Date(ms), two = (n) => String(n).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// ---- Asking the daemon ----

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Kept for this tab only.
const token = () => sessionStorage.getItem(TOKEN);

async function ask(path, body) {
  const headers = {};
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, {
    method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), credentials: "same-origin",
    cache: "no-store", redirect: "error", signal: AbortSignal.timeout(10000),
  });
  const text = await answer.text();
  if (answer.ok) return JSON.parse(text);
  let why = text.trim();
  try { why = JSON.parse(text).error; } catch { /* it was no JSON */ }
  throw new Refused(answer.status, why || `status ${answer.status}`);
}

// ---- Tables ----

// Rows keep their elements from one picture to the next, so that focus and selection stay. A column:
//   title, value(row) to sort by, text(row) or node(row, cell), and num, less (left out where it is
//   narrow), when(row) (left out if no row has it), kind (classes of its cells).
class Table {
  constructor(place, label, columns, { sort, nothing }) {
    this.columns = columns;
    this.sort = sort;
    this.nothing = nothing;
    this.place = place;
    this.rows = new Map();
    this.heads = columns.map((column, i) => {
      const head = make("th", { scope: "col", className: classes({ ...column, kind: "" }) });
      if (column.value) {
        head.append(make("button", { type: "button", textContent: column.title, onclick: () => this.choose(i) }));
      } else {
        head.append(make("span", { className: "hide", textContent: column.title }));
      }
      return head;
    });
    this.body = make("tbody");
    this.box = make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": label },
      make("table", {}, make("thead", {}, make("tr", {}, ...this.heads)), this.body));
    this.data = [];
  }

  choose(i) {
    const [now, direction] = this.sort;
    const first = this.columns[i].num ? -1 : 1;
    this.sort = [i, now === i ? -direction : first];
    this.show(this.data);
  }

  show(data, key = this.key) {
    this.key = key;
    this.data = data;
    const [by, direction] = this.sort, value = this.columns[by].value;
    const absent = this.columns.map(({ when }) => when !== undefined && !data.some(when));
    this.heads.forEach((head, i) => {
      head.hidden = absent[i];
      if (i === by) head.setAttribute("aria-sort", direction < 0 ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    if (data.length === 0) return this.place.replaceChildren(this.nothing());
    if (this.box.parentNode !== this.place) this.place.replaceChildren(this.box);
    const ordered = [...data].sort((a, b) => {
      const x = value(a), y = value(b);
      return direction * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
    });
    const seen = new Set();
    let place = this.body.firstChild;
    for (const row of ordered) {
      const id = key(row);
      seen.add(id);
      let line = this.rows.get(id);
      if (!line) {
        line = make("tr", {}, ...this.columns.map((column) => make("td", { className: classes(column) })));
        this.rows.set(id, line);
      }
      if (line === place) place = place.nextSibling;
      else this.body.insertBefore(line, place);
      this.columns.forEach((column, i) => {
        const cell = line.cells[i];
        cell.hidden = absent[i];
        if (column.node) return column.node(row, cell);
        const text = column.text(row);
        say(cell, text);
        if (!column.num && cell.title !== text) cell.title = text;
      });
    }
    for (const [id, line] of this.rows) {
      if (seen.has(id)) continue;
      line.remove();
      this.rows.delete(id);
    }
  }
}

function classes(column) {
  return [column.num && "num", column.less && "less", column.kind].filter(Boolean).join(" ");
}

// A bar for a part of a whole, beside the number.
function shareCell(part) {
  return (row, cell) => {
    if (!cell.firstChild) {
      cell.append(make("span"), make("span", { className: "meter share" }, make("i", { className: "k0" }), make("i", { className: "k-free" })));
    }
    const value = part(row);
    say(cell.firstChild, value === null ? "–" : percent(value));
    fill(cell.lastChild.children, [value ?? 0, 1 - (value ?? 0)]);
  };
}

function fill(parts, sizes) {
  [...parts].forEach((part, i) => part.style.setProperty("flex", `${Math.max(0, sizes[i])} 0 0px`));
}

// ---- What is known of the past ----

// The last looks at something, for rates over the time between them.
class Looks {
  constructor(most) { this.most = most; this.all = []; }
  clear() { this.all = []; }
  add(time, look) {
    this.all.push([time, look]);
    if (this.all.length > this.most) this.all.shift();
  }
  // What number(look) grew by in a second; null while that is not known.
  rate(number) {
    if (this.all.length < 2) return null;
    const [from, first] = this.all[0], [to, last] = this.all[this.all.length - 1];
    const before = number(first), now = number(last);
    if (now === undefined || to <= from) return null;
    return Math.max(0, now - (before ?? 0)) / ((to - from) / 1000);
  }
}

const states = new Looks(5), kernelLooks = new Looks(6);
let state = null;    // the last one
let samples = [];    // of the devices: {number, busy: [], queued: []}
let past = null;     // how they were told

// ---- Overview ----

const cards = new Map();

function figures(place, rows) {
  rows.forEach(([title, value, more], i) => {
    let box = place.children[i];
    if (!box) {
      box = make("div", {}, make("dt"), make("dd", {}, "", make("small")));
      place.append(box);
    }
    say(box.firstChild, title);
    const shown = box.lastChild;
    if (shown.firstChild.nodeValue !== value) shown.firstChild.nodeValue = value;
    say(shown.lastChild, more);
  });
}

function showFigures() {
  const { status, devices } = state;
  const sum = (of) => devices.reduce((total, device) => total + Number(of(device)), 0);
  const used = sum((device) => device.in_use_bytes), whole = sum((device) => device.info.memory_bytes);
  const last = samples[samples.length - 1];
  const busy = last ? last.busy.reduce((a, b) => a + b, 0) / Math.max(1, last.busy.length) : 0;
  const runs = states.rate((look) => Number(look.status.programs_run));
  const waiting = state.sessions.reduce((total, session) => total + Number(session.queued), 0);
  figures($("figures"), [
    ["Devices busy", percent(busy), `${plural(devices.length, "device")}, now`],
    ["Memory in use", bytes(used), whole ? `${percent(used / whole)} of ${bytes(whole)}` : "no limit"],
    ["Sessions", count(status.sessions),
      `${Number(status.sessions_parked) ? `${count(status.sessions_parked)} parked, ` : ""}${count(status.sessions_total)} since start`],
    ["Runs", rate(runs), `${count(status.programs_run)} since start`],
    ["Waiting", count(waiting), "commands of all sessions"],
    ["Up", duration(status.uptime_ms), `tensord ${status.server_version}`],
  ]);
}

// One device: how busy it was, as an area over time.
class Card {
  constructor(name) {
    this.now = make("span", { className: "now" });
    this.arch = make("span", { className: "arch" });
    this.area = draw("path", { class: "area" });
    this.edge = draw("path", { class: "edge" });
    this.cursor = draw("line", { class: "cursor", y1: 0, y2: 100, visibility: "hidden" });
    this.chart = draw("svg", { class: "chart", viewBox: "0 0 600 100", preserveAspectRatio: "none", role: "img", tabindex: 0 },
      ...[0, 50, 100].map((y) => draw("line", { class: "grid", x1: 0, x2: 600, y1: y, y2: y })), this.area, this.edge, this.cursor);
    this.left = make("span");
    this.middle = make("span", { className: "dim" });
    this.memory = make("dd", { className: "meter" }, make("i", { className: "k0" }), make("i", { className: "k-cached" }), make("i", { className: "k-free" }));
    this.memoryText = make("dd", { className: "num" });
    this.queue = make("dd", { className: "num" });
    this.queueNote = make("dd", { className: "dim" });
    this.element = make("article", { className: "card", "aria-label": name },
      make("header", {}, make("h3", { textContent: name }), this.arch, this.now), this.chart,
      make("div", { className: "axis", "aria-hidden": "true" }, this.left, this.middle, make("span", { textContent: "now" })),
      make("dl", { className: "pairs" }, make("dt", { textContent: "Memory" }), this.memory, this.memoryText,
        make("dt", { textContent: "Queue" }), this.queueNote, this.queue));
    this.chart.addEventListener("pointermove", (event) => {
      const box = this.chart.getBoundingClientRect();
      this.point(Math.round(((event.clientX - box.left) / box.width) * (this.kept - 1)));
    });
    this.chart.addEventListener("pointerleave", () => this.point(null));
    this.chart.addEventListener("blur", () => this.point(null));
    this.chart.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.point((this.at ?? this.kept - 1) + step);
    });
    this.kept = 600;
    this.at = null;
  }

  point(at) {
    this.at = at === null ? null : Math.max(0, Math.min(this.kept - 1, at));
    this.mark();
  }

  // Beside the place of the pointer, what was there.
  mark() {
    const number = this.at === null || !this.last ? null : this.last - (this.kept - 1 - this.at);
    const sample = number === null ? null : samples.find((each) => each.number === number);
    this.cursor.setAttribute("visibility", sample ? "visible" : "hidden");
    if (!sample) return say(this.middle, "");
    const x = (this.at / (this.kept - 1)) * 600;
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    const ago = ((this.last - number) * past.interval_ms) / 1000;
    say(this.middle, `${clock(past.end_ms - ago * 1000)}  busy ${percent(sample.busy[this.index])}, ${sample.queued[this.index]} queued`);
  }

  show(device, index) {
    this.index = index;
    const info = device.info, capacity = Number(info.memory_bytes), used = Number(device.in_use_bytes), cached = Number(device.cached_bytes);
    say(this.arch, info.executes ? info.arch : `${info.arch}, computes nothing`);
    fill(this.memory.children, [used, Math.min(cached, Math.max(0, capacity - used)), capacity - used - cached]);
    say(this.memoryText, `${bytes(used)} of ${bytes(capacity)}`);
    say(this.queue, `${count(Number(device.submitted) - Number(device.completed))} queued`);
    say(this.queueNote, `${rate(states.rate((look) => Number(look.devices[index]?.submitted)))} submitted`);
    if (!past) return;
    this.kept = past.samples_kept;
    this.last = samples.length ? samples[samples.length - 1].number : 0;
    const busy = (sample) => sample.busy[index] ?? 0;
    const known = samples.filter((sample) => sample.number > this.last - this.kept);
    const points = known.map((sample) => {
      const x = 600 * (1 - (this.last - sample.number) / (this.kept - 1));
      return `${x.toFixed(1)} ${(100 - 100 * busy(sample)).toFixed(1)}`;
    });
    const line = points.length ? `M${points.join("L")}` : "";
    this.edge.setAttribute("d", line);
    this.area.setAttribute("d", line && `${line}V100H${points[0].split(" ")[0]}Z`);
    const now = known.length ? busy(known[known.length - 1]) : 0;
    const mean = known.reduce((sum, sample) => sum + busy(sample), 0) / Math.max(1, known.length);
    say(this.now, percent(now));
    say(this.left, `${Math.round((this.kept * past.interval_ms) / 60000)} min ago`);
    this.chart.setAttribute("aria-label", `${info.name} busy over time: ${percent(now)} now, ${percent(mean)} on average of the last ${duration(known.length * past.interval_ms)}`);
    this.mark();
  }
}

function showDevices() {
  const place = $("devices");
  state.devices.forEach((device, i) => {
    const name = device.info.name;
    if (!cards.has(name)) {
      cards.set(name, new Card(name));
      place.append(cards.get(name).element);
    }
    cards.get(name).show(device, i);
  });
}

const of = (look, id) => look.sessions.find((session) => session.session_id === id);
const grown = (id, number) => states.rate((look) => {
  const found = of(look, id);
  return found && number(found);
});
const WEIGHTS = { 16: "interactive", 4: "normal", 1: "batch" };
const hidden = (session) => !session.user && !session.client_name && !session.peer;

const sessionTable = new Table($("sessions"), "Sessions", [
  { title: "Session", value: (s) => s.session_id, node: sessionCell },
  { title: "User", value: (s) => s.user, text: (s) => (hidden(s) ? "another user" : s.user || "nobody") },
  { title: "Client", kind: "text", less: true, value: (s) => s.client_name, text: (s) => s.client_name || "–" },
  { title: "Priority", less: true, value: (s) => Number(s.weight), text: (s) => WEIGHTS[s.weight] ?? `weight ${s.weight}` },
  { title: "Device", num: true, value: (s) => s.share ?? 0, node: shareCell((s) => s.share) },
  { title: "Runs", num: true, value: (s) => s.runs ?? 0, text: (s) => rate(s.runs) },
  { title: "Waiting", num: true, value: (s) => Number(s.queued), text: (s) => count(s.queued) },
  { title: "On device", num: true, less: true, value: (s) => Number(s.in_flight), text: (s) => count(s.in_flight) },
  { title: "Memory", num: true, value: (s) => Number(s.counters.live_bytes), text: (s) => bytes(s.counters.live_bytes) },
  { title: "Up", num: true, less: true, value: (s) => s.up ?? 0, text: (s) => flow(s.up) },
  { title: "Down", num: true, less: true, value: (s) => s.down ?? 0, text: (s) => flow(s.down) },
  { title: "Idle", num: true, value: (s) => Number(s.last_command_ms_ago), text: (s) => (s.parked ? `parked, ${duration(s.lease_ms_left)} left` : duration(s.last_command_ms_ago)) },
  { title: "End", kind: "act", node: killCell },
], { sort: [4, -1], nothing: () => empty("No sessions. A client that connects is here from its first moment on.") });

const mine = (session) => state.admin || (state.user && state.user === session.user);

function sessionCell(session, cell) {
  if (!mine(session)) return say(cell, session.session_id);
  if (!cell.firstChild) cell.append(make("button", { type: "button", className: "link", textContent: session.session_id, onclick: () => explain(session.session_id) }));
}

// What the first command that is not executed waits for, by ExplainReply.Cause.
const CAUSES = {
  CAUSE_NOTHING: "It waits for nothing.",
  CAUSE_TURN: "It waits for its turn.",
  CAUSE_PROGRAM: "Its program is being compiled.",
  CAUSE_COMPILES: "As many programs as may be are being compiled.",
  CAUSE_TENSOR: "An upload or a copy has not filled an operand yet.",
  CAUSE_READERS: "Downloads and copies read what the run would overwrite.",
  CAUSE_RUNS: "As many of its runs as may be are on the device.",
};

async function explain(id) {
  say($("source-title"), id);
  say($("source-note"), "What it waits for, and which of its programs had to be scheduled.");
  say($("source-text"), "…");
  $("source").showModal();
  try {
    const reply = await ask(`/api/explain?session=${encodeURIComponent(id)}`);
    const lines = [`${CAUSES[reply.cause] ?? reply.cause}${reply.what ? ` (${reply.what})` : ""}`];
    for (const queue of reply.queues) {
      lines.push(`${queue.device}: place ${queue.place} of ${queue.waiting}, begins in about ${nanoseconds(Number(queue.starts_in_ns))}; `
        + `${plural(queue.own_runs, "own run")} and ${plural(queue.other_runs, "run")} of others are on the device`);
    }
    for (const miss of reply.misses) {
      lines.push("", `${miss.program || "a program"}: ${miss.text || "no plan was there"}`, `  ${count(miss.compiled)} of ${plural(miss.kernels, "kernel")} had to be compiled`);
    }
    say($("source-text"), `${lines.join("\n")}\n`);
  } catch (error) {
    say($("source-text"), `${error.message}\n`);
  }
}

function killCell(session, cell) {
  if (!mine(session)) return cell.replaceChildren();
  if (!cell.firstChild) {
    cell.append(make("button", { type: "button", className: "quiet", textContent: "End…", "aria-label": `End ${session.session_id}` }));
  }
  cell.firstChild.onclick = () => confirmKill(session);
}

function showSessions() {
  const devices = Math.max(1, state.devices.length);
  for (const session of state.sessions) {
    const id = session.session_id;
    const share = grown(id, (s) => Number(s.counters.device_ns));
    session.share = share === null ? null : Math.min(1, share / 1e9 / devices);
    session.runs = grown(id, (s) => Number(s.counters.programs_run));
    session.up = grown(id, (s) => Number(s.counters.bytes_uploaded));
    session.down = grown(id, (s) => Number(s.counters.bytes_downloaded));
  }
  sessionTable.show(state.sessions, (session) => session.session_id);
}

function confirmKill(session) {
  say($("kill-title"), `End ${session.session_id}?`);
  say($("kill-text"), `It is ${session.user ? `of ${session.user}` : "of nobody in particular"}${session.client_name ? ` (${session.client_name})` : ""} and holds ${bytes(session.counters.live_bytes)}. Its tensors and its work are lost at once.`);
  $("kill-yes").onclick = async () => {
    $("kill").close();
    try {
      await ask("/api/kill", { session_id: session.session_id });
    } catch (error) {
      // One that has ended meanwhile is as gone as it was to be.
      if (error.status !== 404) fail(error);
    }
    tick();
  };
  $("kill").showModal();
}

// ---- Memory ----

const COLOURS = 6;

function showMemory(memory) {
  const { devices, spilled } = memory.held;
  $("maps").replaceChildren(...devices.map((device) => {
    const of = state.devices.find((each) => each.info.name === device.device) ?? {};
    const n = (value) => Number(value ?? 0);
    const cached = n(of.cached_bytes), used = n(device.in_use_bytes), capacity = n(device.capacity_bytes);
    const holders = device.holders.map((holder) => ({
      bytes: n(holder.bytes),
      name: holder.session_id ? [holder.session_id, holder.user].filter(Boolean).join(", ") : `published${holder.user ? ` by ${holder.user}` : ""}`,
    }));
    const sum = (rows) => rows.reduce((total, row) => total + row.bytes, 0);
    // The largest have a colour each, the others share one.
    const parts = holders.slice(0, COLOURS).map((holder, i) => ({ kind: `k${i}`, ...holder }));
    const others = holders.slice(COLOURS);
    if (others.length) parts.push({ kind: "", bytes: sum(others), name: plural(others.length, "smaller holder") });
    parts.push({ kind: "k-work", bytes: used - n(device.tensor_bytes), name: "runs under way" });
    parts.push({ kind: "k-cached", bytes: cached, name: "kept for reuse" });
    parts.push({ kind: "k-free", bytes: capacity - used - cached, name: "free" });
    for (let i = parts.length; i--;) if (parts[i].bytes <= 0) parts.splice(i, 1);
    const bar = make("div", { className: "meter tall", "aria-hidden": "true" }, ...parts.map((part) => make("i", { className: part.kind, title: `${part.name}: ${bytes(part.bytes)}` })));
    fill(bar.children, parts.map((part) => part.bytes));
    return make("article", { className: "map", "aria-label": device.device },
      make("header", {}, make("h3", { textContent: device.device }),
        make("span", { textContent: `${bytes(used)} in use of ${bytes(capacity)}, ${bytes(of.peak_in_use_bytes ?? 0)} at most so far` })),
      bar,
      make("ul", { className: "legend" }, ...parts.map((part) => make("li", {}, make("i", { className: part.kind }), make("span", { textContent: part.name, title: part.name }), make("b", { textContent: bytes(part.bytes) })))));
  }));
  const moved = ["host", "disk"].filter((where) => Number(spilled?.[`${where}_bytes`] ?? 0));
  say($("spilled"), moved.length ? `Moved off the devices to make room: ${moved.map((where) => `${bytes(spilled[`${where}_bytes`])} of ${bytes(spilled[`${where}_limit_bytes`])} ${where === "host" ? "in host memory" : "on disk"}`).join(", ")}.` : "");
  const { tensors, count: all, bytes: held } = memory.tensors;
  say($("tensors-note"), Number(all) ? `${plural(all, "tensor")} with ${bytes(held)}${tensors.length < Number(all) ? `; the ${count(tensors.length)} largest` : ""}${state.admin ? "" : ", of your sessions"}.` : "");
  tensorTable.show(tensors, (tensor) => `${tensor.session_id} ${tensor.handle}`);
}

// As tensorctl writes it.
const slot = (handle) => `%${BigInt(handle) & 0xffffffffn}`;

const tensorTable = new Table($("tensors"), "Largest tensors", [
  { title: "Session", value: (t) => t.session_id, text: (t) => t.session_id },
  { title: "Tensor", less: true, value: (t) => Number(BigInt(t.handle) & 0xffffffffn), text: (t) => slot(t.handle) },
  { title: "Shape", kind: "mono", value: (t) => t.shape.length, text: (t) => (t.device ? `[${t.shape.join(", ")}]` : "–") },
  { title: "Dtype", value: (t) => t.dtype, text: (t) => t.dtype || "–" },
  { title: "Device", less: true, value: (t) => t.device, text: (t) => t.device || "–" },
  { title: "State", less: true, kind: "text", value: (t) => t.state, text: (t) => (t.error ? `error: ${t.error}` : t.state) },
  { title: "Size", num: true, value: (t) => Number(t.bytes), text: (t) => bytes(t.bytes) },
], { sort: [6, -1], nothing: () => empty("No tensors are held.") });

// ---- Kernels ----

const kernelId = (k) => JSON.stringify([k.user, k.name, k.keys]);

const kernelTable = new Table($("kernel-table"), "Kernels by device time", [
  { title: "Kernel", kind: "text mono", value: (k) => k.name, node: kernelCell },
  { title: "Time", num: true, value: (k) => k.device_ns, text: (k) => nanoseconds(k.device_ns) },
  { title: "Share", num: true, value: (k) => k.device_ns, node: shareCell((k) => k.share) },
  { title: "Lately", num: true, value: (k) => k.lately ?? 0, text: (k) => (k.lately === null ? "–" : percent(k.lately)) },
  { title: "Launches", num: true, less: true, value: (k) => k.launches, text: (k) => count(k.launches) },
  { title: "Each", num: true, value: (k) => k.device_ns / Math.max(1, k.launches), text: (k) => nanoseconds(k.device_ns / Math.max(1, k.launches)) },
  { title: "Programs", kind: "text", less: true, when: (k) => k.programs.some(Boolean), value: (k) => k.programs.join(", "), text: (k) => k.programs.filter(Boolean).join(", ") || "–" },
  { title: "User", less: true, value: (k) => k.user, text: (k) => k.user || "nobody" },
], { sort: [1, -1], nothing: () => empty("No kernel has run yet, of those that you may see.") });

function kernelCell(kernel, cell) {
  if (!cell.firstChild) {
    if (kernel.keys.length === 0) cell.append(make("span", { className: "dim" }));
    else cell.append(make("button", { type: "button", className: "link mono", onclick: () => showSource(cell.kernel) }));
  }
  cell.kernel = kernel;
  say(cell.firstChild, kernel.keys.length > 1 ? `${kernel.name} of ${plural(kernel.keys.length, "kernel")}` : kernel.name);
  cell.title = cell.textContent;
}

function showKernels(reply) {
  kernelLooks.add(state.now_ms, new Map(reply.kernels.map((k) => [kernelId(k), k.device_ns])));
  const whole = reply.kernels.reduce((total, kernel) => total + kernel.device_ns, 0);
  const rates = reply.kernels.map((kernel) => kernelLooks.rate((look) => look.get(kernelId(kernel))));
  const lately = rates.reduce((total, each) => total + (each ?? 0), 0);
  reply.kernels.forEach((kernel, i) => {
    kernel.share = whole ? kernel.device_ns / whole : 0;
    kernel.lately = rates[i] === null ? null : lately ? rates[i] / lately : 0;
  });
  say($("kernels-note"), reply.kernels.length ? `${nanoseconds(whole)} of device time${state.admin ? "" : " of your runs"}. Lately: the last ten seconds. A name opens what the kernel computes.` : "");
  kernelTable.show(reply.kernels, kernelId);
}

async function showSource(kernel) {
  say($("source-title"), kernel.name);
  const programs = kernel.programs?.filter(Boolean) ?? [];
  say($("source-note"), `The loops and operations that the compiler was given${programs.length ? `, for ${programs.join(", ")}` : ""}.`);
  say($("source-text"), "…");
  $("source").showModal();
  const texts = await Promise.all(kernel.keys.map(async (key) => {
    try {
      return (await ask(`/api/source?kernel=${encodeURIComponent(key)}`)).text;
    } catch (error) {
      return `# ${error.message}\n`;
    }
  }));
  say($("source-text"), texts.join("\n"));
  $("source-text").scrollTo(0, 0);
}

// ---- Compile cache ----

const cacheTable = new Table($("cache-table"), "Kernels in memory", [
  { title: "Kernel", kind: "text mono", value: (k) => k.name, node: kernelCell },
  { title: "Last use", num: true, value: (k) => -k.order, text: (k) => count(k.order + 1) },
  { title: "Key", kind: "mono", less: true, value: (k) => k.key, text: (k) => k.key.slice(0, 16) },
  { title: "Size", num: true, value: (k) => k.bytes, text: (k) => bytes(k.bytes) },
], { sort: [1, -1], nothing: () => empty(state.admin ? "No kernel is in memory." : "Which kernels are there is for administrators.") });

function showCache({ stats, kernels }) {
  const n = (name) => Number(stats[name]);
  const part = (hits, all) => (all ? `${percent(hits / all)} found` : "none asked for yet");
  const found = n("kernel_memory_hits") + n("kernel_disk_hits");
  figures($("cache-figures"), [
    ["Plans", count(stats.plans), part(n("plan_hits"), n("plan_hits") + n("plan_misses"))],
    ["Kernels compiled", count(stats.kernel_misses), part(found, found + n("kernel_misses"))],
    ["Found in memory", count(stats.kernel_memory_hits), "kernels"],
    ["Found on disk", count(stats.kernel_disk_hits), "kernels"],
    ["On disk", bytes(stats.disk_bytes), stats.directory ? `${plural(stats.disk_entries, "kernel")}, of ${bytes(stats.disk_limit_bytes)} at most` : "no folder, in memory only"],
    ["Rejected files", count(stats.disk_rejected), stats.directory],
  ]);
  say($("cache-note"), kernels.length ? `The ${count(kernels.length)} that were used last. Programs share them.` : "");
  cacheTable.show(kernels.map((kernel, order) => ({ ...kernel, order, keys: [kernel.key] })), (kernel) => kernel.key);
}

// ---- Log ----

const LEVELS = ["trace", "debug", "info", "warning", "error", "critical"];
const MOST_LINES = 2000;
let lines = [], lastLine = 0;

function wanted(line) {
  const text = $("log-text").value.toLowerCase();
  return LEVELS.indexOf(line.level) >= Number($("log-level").value) && (!text || `${line.logger} ${line.text}`.toLowerCase().includes(text));
}

function lineElement(line) {
  return make("div", { className: line.level }, make("span", { textContent: `${clock(line.time_ms)}.${String(Math.floor(line.time_ms % 1000)).padStart(3, "0")}` }),
    make("span", { textContent: line.level }), make("span", { textContent: line.logger }), make("span", { textContent: line.text }));
}

function appendLines(fresh) {
  const box = $("log-lines");
  box.append(...fresh.filter(wanted).map(lineElement));
  while (box.childElementCount > MOST_LINES) box.firstChild.remove();
  say($("log-note"), lines.length ? `${plural(box.childElementCount, "line")} shown of ${count(lines.length)}.` : "Nothing was logged yet.");
  if ($("log-follow").checked) box.scrollTop = box.scrollHeight;
}

function showAllLines() {
  $("log-lines").replaceChildren();
  appendLines(lines);
}

async function readLog() {
  const { lines: fresh } = await ask(`/api/log?after=${lastLine}`);
  if (fresh.length === 0) return appendLines([]);
  lastLine = fresh[fresh.length - 1].number;
  lines = lines.concat(fresh).slice(-MOST_LINES);
  appendLines(fresh);
}

// ---- Views, and the clock that drives them ----

const VIEWS = {
  overview: { every: 1, read: readHistory },
  memory: { every: 2, read: async () => showMemory(await ask("/api/memory")) },
  kernels: { every: 2, read: async () => showKernels(await ask("/api/kernels")) },
  cache: { every: 3, read: async () => showCache(await ask("/api/cache")) },
  log: { every: 1, read: readLog },
};

async function readHistory() {
  // A long run is in the samples of the past once it has ended.
  const last = samples.length ? samples[samples.length - 1].number : 0;
  past = await ask(`/api/history?after=${Math.max(0, last - 90)}`);
  const size = past.devices[0]?.busy_permille.length ?? 0;
  const fresh = Array.from({ length: size }, (_, i) => ({
    number: past.last - size + 1 + i,
    busy: past.devices.map((device) => device.busy_permille[i] / 1000),
    queued: past.devices.map((device) => device.queued[i]),
  }));
  if (fresh.length) samples = samples.filter((sample) => sample.number < fresh[0].number).concat(fresh).slice(-past.samples_kept);
  showFigures();
  showDevices();
  showSessions();
}

function view() {
  const name = location.hash.replace("#/", "");
  return name in VIEWS && !(name === "log" && state && !state.admin) ? name : "overview";
}

function showView() {
  const name = state ? view() : "login";
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== name;
  for (const link of $("nav").children) {
    if (link.hash === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const title = { overview: "", login: "Log in – " }[name] ?? `${name[0].toUpperCase()}${name.slice(1)} – `;
  document.title = `${title}tensord`;
  $("nav").hidden = $("who").hidden = !state;
  if (state) $("nav-log").hidden = !state.admin;
}

let timer = null, ticking = false, beat = 0, awaySince = null;

// A new daemon counts from the beginning.
function forget() {
  states.clear();
  kernelLooks.clear();
  samples = [];
  past = null;
  lines = [];
  lastLine = 0;
  cards.clear();
  $("devices").replaceChildren();
  $("log-lines").replaceChildren();
}

async function tick(at_once = true) {
  clearTimeout(timer);
  if (ticking) return;
  ticking = true;
  try {
    const fresh = await ask("/api/state");
    const first = !state;
    if (state && (fresh.status.pid !== state.status.pid || Number(fresh.status.uptime_ms) < Number(state.status.uptime_ms))) forget();
    state = fresh;
    states.add(state.now_ms, state);
    here();
    if (first) showView();
    const { every, read } = VIEWS[view()];
    if (at_once || beat++ % every === 0) await read();
  } catch (error) {
    fail(error);
  } finally {
    ticking = false;
    if (!document.hidden && (state || awaySince)) timer = setTimeout(() => tick(false), POLL_MS);
  }
}

function here() {
  awaySince = null;
  document.body.classList.remove("stale");
  $("away").hidden = true;
  const draining = state.status.draining;
  $("health").className = draining ? "chip drains" : "chip";
  say($("health"), draining ? "draining" : "serving");
  say($("user"), `${state.user || "nobody"}${state.admin ? ", administrator" : ""}`);
  $("logout").hidden = !token();
}

function fail(error) {
  if (error.status === 401) {
    const had = token();
    sessionStorage.removeItem(TOKEN);
    return logIn(had ? "You are logged out: the login ended, or the daemon was started anew." : "");
  }
  if (error instanceof Refused) {
    say($("away"), `The daemon says: ${error.message}`);
  } else {
    awaySince ??= Date.now();
    say($("away"), `The daemon does not answer since ${clock(awaySince)}. What is shown is from before; trying again.`);
    document.body.classList.add("stale");
    $("health").className = "chip gone";
    say($("health"), "away");
  }
  $("away").hidden = false;
}

// ---- Who looks ----

function logIn(why) {
  state = null;
  awaySince = null;
  forget();
  $("away").hidden = true;
  document.body.classList.remove("stale");
  say($("login-why"), why);
  showView();
}

async function begin() {
  // A link of tensorctl console: its code is good once, and is gone from the address before it is used.
  const code = /^#([0-9a-f]{32})$/.exec(location.hash)?.[1];
  if (code) {
    window.history.replaceState(null, "", "/");
    sessionStorage.removeItem(TOKEN);
    try {
      sessionStorage.setItem(TOKEN, (await ask("/api/login", { code })).token);
    } catch (error) {
      return error instanceof Refused ? logIn(`${error.message[0].toUpperCase()}${error.message.slice(1)}.`) : fail(error);
    }
  }
  if (token()) tick();
  else logIn("");
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, $("token").value.trim());
  $("token").value = "";
  ask("/api/state").then(() => tick(), (error) => {
    if (error.status !== 401) return fail(error);
    sessionStorage.removeItem(TOKEN);
    logIn(`${error.message[0].toUpperCase()}${error.message.slice(1)}.`);
  });
});
$("logout").addEventListener("click", async () => {
  try { await ask("/api/logout", {}); } catch { /* it is forgotten here anyhow */ }
  sessionStorage.removeItem(TOKEN);
  clearTimeout(timer);
  logIn("");
});
$("source-close").addEventListener("click", () => $("source").close());
$("kill-no").addEventListener("click", () => $("kill").close());
for (const id of ["log-level", "log-text"]) $(id).addEventListener("input", showAllLines);
$("log-follow").addEventListener("change", () => appendLines([]));
$("log-lines").addEventListener("wheel", (event) => { if (event.deltaY < 0) $("log-follow").checked = false; }, { passive: true });
addEventListener("hashchange", () => {
  if (/^#[0-9a-f]{32}$/.test(location.hash)) return begin();
  if (!location.hash.startsWith("#/")) return;
  showView();
  if (state) tick();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden && (state || awaySince)) tick(); });
begin();
