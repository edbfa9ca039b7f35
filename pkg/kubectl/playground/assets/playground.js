// The page of kubectl proviso playground. It uses nothing but the server that it comes from. Texts become text nodes, never markup.

const editors = ["policies", "request", "object"];
const answers = { "yes": "yes", "no": "no", "yes-if": "yes, if" };
const pause = 350; // milliseconds between the last key and the decision
const maxStateBytes = 2 << 20; // of the state in a link; the server accepts no more

const byId = (id) => document.getElementById(id);

// element returns an element with a class and children: elements and texts.
function element(name, className, ...children) {
  const e = document.createElement(name);
  if (className) e.className = className;
  e.append(...children);
  return e;
}

// The state of the editors.

function state() {
  return { policies: byId("policies").value, request: byId("request").value, object: byId("object").value, rbacAllows: byId("rbac").checked };
}

function setState(s) {
  for (const name of editors) {
    byId(name).value = typeof s[name] === "string" ? s[name] : "";
    byId(name).scrollTop = 0;
    number(name);
  }
  byId("rbac").checked = s.rbacAllows === true;
}

// number writes the numbers of the lines of an editor, and marks those with mistakes.
function number(name, bad = []) {
  const lines = byId(name).value.split("\n").length;
  const gutter = byId(name).previousElementSibling;
  const nodes = [];
  for (let i = 1; i <= lines; i++) {
    nodes.push(bad.includes(i) ? element("span", "bad", String(i)) : String(i), "\n");
  }
  gutter.replaceChildren(...nodes);
  gutter.scrollTop = byId(name).scrollTop;
}

// The link has the state in its fragment, which browsers do not send.

async function through(stream, bytes, limit) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const chunks = [];
  let size = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    size += next.value.length;
    if (size > limit) {
      await reader.cancel();
      throw new Error("the link has too much in it");
    }
    chunks.push(next.value);
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

async function toFragment(s) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(s)), Infinity);
  let binary = "";
  for (const b of bytes) binary += String.fromCharCode(b);
  return "#v1." + btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function fromFragment(fragment) {
  if (!fragment.startsWith("#v1.")) return null;
  const binary = atob(fragment.slice(4).replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
  const s = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(await through(new DecompressionStream("deflate-raw"), bytes, maxStateBytes)));
  if (s === null || typeof s !== "object") throw new Error("the link has no state");
  return s;
}

// Decisions.

let timer = 0;
let running = null;
let shownFragment = "";

function later() {
  clearTimeout(timer);
  timer = setTimeout(decide, pause);
}

async function decide() {
  clearTimeout(timer);
  running?.abort();
  const mine = new AbortController();
  running = mine;
  const s = state();
  if (editors.every((name) => s[name].trim() === "")) {
    if (running === mine) showNothing();
    return;
  }
  byId("result").setAttribute("aria-busy", "true");
  let answer;
  try {
    if (!hasFiles) { // which would stay in the history of the browser
      shownFragment = await toFragment(s);
      if (running !== mine) return;
      history.replaceState(null, "", shownFragment);
    }
    const response = await fetch("/api/v1/decide", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(s), signal: mine.signal, cache: "no-store", credentials: "omit",
    });
    answer = await response.json();
  } catch (err) {
    if (err.name === "AbortError") return;
    answer = { errors: [{ message: "the playground does not answer: is the command still running?" }] };
  }
  if (running !== mine) return;
  byId("result").removeAttribute("aria-busy");
  show(answer);
}

function showNothing() {
  byId("verdict").dataset.decision = "";
  byId("answer").textContent = "…";
  byId("summary").textContent = "Choose an example, or write a policy, a request and an object.";
  byId("phases").hidden = true;
  byId("parts").hidden = true;
  say("");
  showMistakes([]);
}

function show(answer) {
  const mistakes = answer.errors ?? [];
  showMistakes(mistakes);
  if (mistakes.length > 0) {
    byId("verdict").dataset.decision = "error";
    byId("answer").textContent = mistakes.length === 1 ? "1 mistake" : mistakes.length + " mistakes";
    byId("summary").textContent = "There is no decision.";
    byId("phases").hidden = true;
    byId("parts").hidden = true;
    say(byId("answer").textContent + ": " + mistakes[0].message);
    return;
  }
  byId("verdict").dataset.decision = answer.decision;
  byId("answer").textContent = answers[answer.decision];
  byId("summary").textContent = answer.tree.text.slice(answer.tree.text.indexOf(": ") + 2);
  byId("phases").hidden = false;
  byId("at-authorization").textContent = answers[answer.atAuthorization];
  byId("with-object").textContent = answers[answer.withObject] ?? "no object, or data are missing";
  byId("near-miss-part").hidden = !answer.nearMiss && !answer.noNearMiss;
  byId("near-miss").textContent = answer.nearMiss ?? (answer.nothingAllows && !byId("rbac").checked ? nothingAllows : sentence(answer.noNearMiss ?? ""));
  byId("near-miss").className = answer.nearMiss ? "found" : "";
  byId("tree").replaceChildren(...(answer.tree.entries ?? []).filter((e) => !e.text.startsWith("near miss: ")).map(branch));
  showConditions(answer.conditions ?? [], answer.atAuthorization);
  byId("barriers").replaceChildren(...(answer.barriers ?? []).map(barrier));
  byId("warnings-part").hidden = !answer.warnings;
  byId("warnings").replaceChildren(...(answer.warnings ?? []).map((text) => element("li", "", text)));
  byId("parts").hidden = false;
  say("The answer is " + answers[answer.decision] + "." + (answer.nearMiss ? " Near miss: " + answer.nearMiss + "." : ""));
}

const nothingAllows = "Nothing allows the request: an Allow policy or RBAC must. To try what Deny policies refuse, tick “RBAC allows the request”.";

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";

// say changes the text that screen readers read. It is hidden if the page shows the same.
function say(text, isShown = false) {
  byId("status").classList.toggle("heard", !isShown);
  if (byId("status").textContent !== text) byId("status").textContent = text;
}

// tones are what colours say, in words.
const tones = { yes: "Decides, yes: ", no: "Decides, no: " };

// branch returns an entry of the tree, with the entries below it.
function branch(entry) {
  const text = element("span", "entry tone-" + entry.tone, entry.text);
  if (tones[entry.tone]) text.prepend(element("span", "heard", tones[entry.tone]));
  const item = element("li", "", text);
  if (entry.entries) item.append(element("ul", "", ...entry.entries.map(branch)));
  return item;
}

function showConditions(rows, decision) {
  const depends = rows.length > 0 && decision === "yes-if";
  byId("conditions-scroll").hidden = !depends;
  byId("no-conditions").textContent = !depends
    ? "The answer at authorization is " + answers[decision] + ", whatever the object is."
    : "The answer at authorization depends on these conditions. The first that is true decides.";
  byId("conditions").replaceChildren(...rows.map((row) => {
    const condition = element("td", "", row.condition === row.expression ? element("code", "", row.condition) : row.condition);
    if (row.description) condition.append(element("small", "", row.description));
    return element("tr", "", element("td", "effect effect-" + row.effect, row.effect), condition, element("td", "", row.policy));
  }));
}

function barrier(b) {
  const name = (b.namespace ? b.namespace + "/" : "") + b.name;
  const box = element("div", "barrier", element("h3", "", b.effect + " policy " + name));
  if (b.reason) box.append(element("p", "", "No barrier: " + b.reason + "."));
  if (b.rules) {
    box.append(element("ul", "", ...b.rules.map((r) => element("li", "", r.verbs.join(", ") + " " + r.resources.join(", ") + ": " + (r.translated ? "in the barrier" : "not in the barrier: " + r.reason)))));
  }
  if (b.manifests) {
    const manifest = element("pre", "manifest", b.manifests);
    manifest.tabIndex = 0;
    manifest.setAttribute("aria-label", "ValidatingAdmissionPolicy " + b.barrier);
    box.append(element("details", "", element("summary", "", "ValidatingAdmissionPolicy " + b.barrier), manifest));
  }
  return box;
}

function showMistakes(mistakes) {
  for (const name of editors) {
    const own = mistakes.filter((m) => m.editor === name);
    number(name, own.map((m) => m.line));
    byId(name).setAttribute("aria-invalid", String(own.length > 0));
    byId(name + "-mistakes").replaceChildren(...own.map((m) => mistake(name, m)));
  }
  byId("mistakes").replaceChildren(...mistakes.filter((m) => !editors.includes(m.editor)).map((m) => element("li", "", m.message)));
}

function mistake(name, m) {
  const item = element("li", "");
  if (m.line) {
    const button = element("button", "", "Line " + m.line);
    button.type = "button";
    button.addEventListener("click", () => goTo(name, m.line));
    item.append(button);
  }
  item.append(m.message);
  return item;
}

// goTo selects a line of an editor.
function goTo(name, line) {
  const area = byId(name);
  const lines = area.value.split("\n");
  const begin = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
  area.focus();
  area.setSelectionRange(begin, begin + (lines[line - 1] ?? "").length);
  area.scrollTop = Math.max(0, (line - 4) * 20);
}

// Examples.

const filesFragment = "#files.";
let hasFiles = false;
let examples = [];

async function load(path, headers = {}) {
  const response = await fetch(path, { headers, cache: "no-store", credentials: "omit" });
  const body = await response.json();
  if (!response.ok) throw new Error(body.errors[0].message);
  return body;
}

// loadExamples lists the examples, and before them the files of -f, if the address has their secret.
async function loadExamples() {
  const files = [];
  if (location.hash.startsWith(filesFragment)) {
    files.push(await load("/api/v1/files", { Authorization: "Bearer " + location.hash.slice(filesFragment.length) }));
  }
  hasFiles = files.length > 0;
  examples = [...files, ...await load("/api/v1/examples")];
  for (const [i, e] of examples.entries()) {
    const group = document.createElement("optgroup");
    group.label = e.name === "files" ? "Your files: " + e.title : e.isTemplate ? "Template: " + e.title : e.title;
    for (const [j, r] of e.requests.entries()) {
      const option = element("option", "", r.title);
      option.value = i + "." + j;
      group.append(option);
    }
    byId("example").append(group);
  }
}

function chooseExample() {
  const [i, j] = byId("example").value.split(".").map(Number);
  const request = examples[i]?.requests[j];
  if (!request) return;
  setState({ policies: examples[i].policies, request: request.request, object: request.object, rbacAllows: request.rbacAllows });
  decide();
}

async function copyLink() {
  shownFragment = await toFragment(state());
  history.replaceState(null, "", shownFragment);
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied.", true);
  } catch {
    say("The link is in the address bar.", true);
  }
}

async function readLink() {
  if (location.hash === shownFragment) return true;
  if (location.hash.startsWith(filesFragment)) {
    location.reload();
    return true;
  }
  try {
    const s = await fromFragment(location.hash);
    if (s === null) return false;
    setState(s);
    byId("example").value = "";
    await decide();
  } catch {
    show({ errors: [{ message: "the link is damaged: copy all of it" }] });
  }
  return true;
}

for (const name of editors) {
  const area = byId(name);
  area.addEventListener("input", () => { number(name); byId("example").value = ""; later(); });
  area.addEventListener("scroll", () => { area.previousElementSibling.scrollTop = area.scrollTop; });
}
byId("rbac").addEventListener("change", decide);
byId("decide").addEventListener("click", decide);
byId("link").addEventListener("click", copyLink);
byId("example").addEventListener("change", chooseExample);
document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); byId("verdict").focus(); });
window.addEventListener("hashchange", readLink);
document.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
    e.preventDefault();
    decide();
  }
});

let failure = "";
try {
  await loadExamples();
} catch (err) {
  failure = err instanceof TypeError ? "the playground does not answer: is the command still running?" : err.message;
}
if (failure !== "") {
  show({ errors: [{ message: failure }] });
} else if (examples[0]?.name === "files") {
  byId("example").value = "0.0";
  chooseExample();
} else if (location.hash === "" || !(await readLink())) {
  const first = examples.findIndex((e) => e.name === "storage-class");
  const refused = first < 0 ? -1 : examples[first].requests.findIndex((r) => r.object !== "" && r.title.includes("another"));
  if (refused >= 0) {
    byId("example").value = first + "." + refused;
    chooseExample();
  }
}
