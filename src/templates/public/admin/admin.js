// What pages need beyond htmx: the live stream, the keyboard, dialogs and a few small comforts.
// Everything here is an addition: pages read, filter, answer and change without it.
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const signal = $("#signal");

  // What a person has half typed is not for the next one, also where the session has just expired.
  const { session } = document.body.dataset;
  if (sessionStorage.getItem("svc-session") !== session) {
    sessionStorage.clear();
    sessionStorage.setItem("svc-session", session);
  }

  // A person who comes back continues at the link that was followed, also by keyboard.
  const LEFT = "svc-left:";
  const place = () => LEFT + location.pathname + location.search;
  document.addEventListener("click", ({ target }) => {
    const href = target.closest("main a[href]")?.getAttribute("href");
    if (href) sessionStorage.setItem(place(), href);
  });
  const followed = sessionStorage.getItem(place());
  const [arrival] = performance.getEntriesByType("navigation");
  if (followed && arrival?.type !== "navigate" && document.activeElement === document.body)
    $(`main a[href="${CSS.escape(followed)}"]`)?.focus();

  // Live: one stream per page. It reports what changed; the page requests the parts that it shows.
  const url = document.body.dataset.live;
  const HIDDEN_FOR = 20_000;
  // The service sends a beat each 15 s: without two of them, nothing arrives, whatever the connection says.
  const SILENT = 35_000;
  const HEARD = 20_000;
  const OPENING = 8000;
  const LONGEST = 5000;
  const PROBED = 3000;
  /** How long a part of the page is waited for. */
  const PATIENCE = 10_000;
  let source;
  let heardAt = Date.now();
  let openedAt = 0;
  let isLive = false;
  let seen = Number(document.body.dataset.tick);
  let failures = 0;
  let retry;
  let hiding;
  const pause = (count) => Math.min(LONGEST, 500 * 2 ** count);

  function connect() {
    clearTimeout(retry);
    if (source || !url || document.hidden) return;
    source = new EventSource(url);
    if (failures === 0) heardAt = Date.now();
    openedAt = Date.now();
    const on = (name, take) => source.addEventListener(name, (event) => {
      heardAt = Date.now();
      take?.(event.data);
    });
    on("hello", (data) => {
      const tick = Number(data);
      const wasLost = failures > 0;
      // Something may have happened between the page's rendering, or a lost connection, and now.
      const isBehind = tick !== seen || wasLost;
      seen = tick;
      failures = 0;
      isLive = true;
      if (isBehind) catchUp(wasLost);
      // What is being emitted comes again.
      for (const step of steps.values()) step.isOver = true;
      clearSteps();
      show("live", "Live");
      judge();
    });
    on("change", (data) => {
      const change = JSON.parse(data);
      seen = change.tick;
      apply(change);
    });
    on("chunk", (data) => emitted(JSON.parse(data)));
    on("settled", (data) => settled(JSON.parse(data)));
    on("beat");
    source.onerror = lost;
  }
  setInterval(() => {
    for (const element of document.hidden ? [] : $$("[data-every]")) poll(element);
    if (document.hidden || !source) return judge();
    const isSilent = isLive ? Date.now() - heardAt > SILENT : Date.now() - openedAt > OPENING;
    if (isSilent) {
      if (isLive) dropIdle();
      lost();
    }
    else judge();
  }, 1000);

  // What steps emit: the text of each attempt under way, until the page shows its result.
  const tokens = $("#tokens");
  const steps = new Map();
  const keyOf = ({ case_id, position }) => `${case_id ?? ""}/${position}`;
  function emitted(data) {
    if (!tokens || (tokens.dataset.case && tokens.dataset.case !== data.case_id)) return;
    const key = keyOf(data);
    const attempt = `${data.run}/${data.attempt}`;
    let step = steps.get(key);
    if (!step?.box.isConnected) {
      const box = document.createElement("article");
      box.append(document.createElement("p"), document.createElement("pre"));
      box.firstChild.className = "faint";
      step = { box, attempt: "", count: 0 };
      steps.set(key, step);
      tokens.append(box);
    }
    const text = step.box.lastChild;
    if (step.attempt !== attempt || step.count !== data.index) text.textContent = data.index > 0 ? "[chunks missed] " : "";
    step.box.firstChild.textContent = data.attempt > 1 ? `${data.name}, attempt ${data.attempt}` : data.name;
    step.attempt = attempt;
    step.count = data.index + data.chunks.length;
    step.isOver = false;
    text.append(data.chunks.map((chunk) => (typeof chunk === "string" ? chunk : `\n${JSON.stringify(chunk)}\n`)).join(""));
    if (tokens.closest(".now")) tokens.closest(".now").hidden = false;
  }
  function settled(data) {
    const step = steps.get(keyOf(data));
    if (!step) return;
    step.isOver = true;
    setTimeout(clearSteps, 3000);
  }
  function clearSteps() {
    for (const [key, step] of steps) {
      if (!step.isOver) continue;
      step.box.remove();
      steps.delete(key);
    }
    const now = tokens?.closest(".now");
    if (now && steps.size === 0) now.hidden = true;
  }
  document.addEventListener("htmx:afterSettle", clearSteps);

  function lost() {
    disconnect();
    failures++;
    show("lost", "Reconnecting");
    // Counted from the attempt: one that was given time to open is followed by the next.
    retry = setTimeout(connect, Math.max(500, pause(failures) - (Date.now() - openedAt)));
    judge();
  }

  // A browser keeps idle connections for later. Those of a network that fell silent are lost, too, and each would be tried
  // in its turn: requests without an answer end all of them.
  function dropIdle() {
    for (let at = 0; at < 6; at++)
      fetch(url, { method: "HEAD", cache: "no-store", headers: unattended, signal: AbortSignal.timeout(PROBED) }).catch(() => {});
  }

  function disconnect() {
    source?.close();
    source = undefined;
    isLive = false;
  }

  // A page that no longer sees the service says so, at every width, and since when: its figures are from then.
  const blind = $("#blind");
  const failing = new Map();
  function judge() {
    if (!blind || document.hidden) return;
    const refused = [...failing.values()].find(({ isSignedOut }) => isSignedOut);
    const stale = [...failing.values()].filter(({ count }) => count > 1).map(({ since }) => since);
    const gone = failures > 1 || (failures > 0 && Date.now() - heardAt > 4000);
    if (gone) stale.push(heardAt);
    const isBlind = refused !== undefined || stale.length > 0;
    document.body.classList.toggle("blind", isBlind);
    blind.hidden = !isBlind;
    if (!isBlind) return;
    if (refused) return write(blind, "You are signed out. Load the page again to sign in.");
    const since = stamp(new Date(Math.min(...stale)), "tick");
    const cause = gone ? "No connection to the service" : "Parts of this page cannot be refreshed";
    write(blind, `${cause} since ${since}. What you see is from then. Trying again…`);
  }

  /** Notes whether what was asked for came; where it did not, it is asked for again. */
  function arrived(key, status, again) {
    const known = failing.get(key);
    clearTimeout(known?.timer);
    if (status >= 200 && status < 400) failing.delete(key);
    else {
      const count = (known?.count ?? 0) + 1;
      const isSignedOut = status === 401;
      const timer = isSignedOut ? undefined : setTimeout(again, pause(count));
      failing.set(key, { count, since: known?.since ?? Date.now(), timer, isSignedOut });
    }
    judge();
  }

  // What the page asks for by itself, by key: once at a time, again where something changed meanwhile or it failed.
  const asking = new Map();
  /** `send` returns the status of the response; it returns nothing where the page no longer has the part. */
  async function ask(key, send) {
    const current = asking.get(key);
    if (current) {
      current.again = true;
      return;
    }
    clearTimeout(failing.get(key)?.timer);
    const over = new AbortController();
    const mine = { again: false, isOutdated: false, over };
    asking.set(key, mine);
    const late = setTimeout(() => over.abort(), PATIENCE);
    let status = 0;
    try {
      status = await send(over.signal);
    } catch {
      // No response, or half of one.
    }
    clearTimeout(late);
    asking.delete(key);
    const again = () => ask(key, send);
    if (mine.isOutdated) return again();
    arrived(key, status ?? 204, again);
    if (mine.again && !failing.has(key)) again();
  }
  document.addEventListener("svc:ask", ({ detail }) => ask(detail.key, detail.send));
  document.addEventListener("svc:arrived", ({ detail }) => arrived(detail.key, detail.status, detail.again));

  function show(state, text) {
    signal.hidden = false;
    signal.dataset.state = state;
    signal.textContent = text;
  }

  // A browser allows six connections to a server: a hidden tab closes its own.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (!document.hidden) return connect();
    hiding = setTimeout(() => {
      disconnect();
      clearTimeout(retry);
      show("off", "Paused");
    }, HIDDEN_FOR);
  });

  /** `wasLost`: the service was not heard for a time. What was asked for then may never come. */
  function catchUp(wasLost) {
    if (wasLost) {
      for (const one of asking.values()) {
        one.isOutdated = true;
        one.over.abort();
      }
      ask("navigation", readNavigation);
    }
    apply({ topics: ["jobs", "cases", "service", ...(wasLost ? ["return"] : [])], all: true });
  }

  function apply(change) {
    for (const element of $$("[data-refresh]")) {
      const wanted = element.dataset.refresh.split(" ");
      if (wanted.some((topic) => change.topics.includes(topic))) refresh(element);
    }
    for (const list of $$("[data-rows]")) updateRows(list, change);
    document.dispatchEvent(new CustomEvent("svc:change", { detail: change }));
    if (change.inbox !== undefined) badge("inbox", change.inbox);
    if (change.failures !== undefined) badge("failures", change.failures);
    if (change.spoken) speak(change.spoken);
  }

  // A session ends after inactivity: requests that a page makes by itself do not count.
  const unattended = { "X-Unattended": "1" };
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.triggeringEvent?.type === "refresh") Object.assign(event.detail.headers, unattended);
  });

  // Elements that are being refreshed, and what takes the status of the response.
  const refreshing = new Map();
  const isRefresh = ({ requestConfig }) => requestConfig?.triggeringEvent?.type === "refresh";
  function refresh({ id }) {
    ask(id, (over) => new Promise((resolve) => {
      const element = document.getElementById(id);
      if (!element) return resolve();
      refreshing.set(id, resolve);
      over.addEventListener("abort", () => {
        resolve(0);
        htmx.trigger(element, "htmx:abort");
      });
      htmx.trigger(element, "refresh");
    }));
  }
  /** Reads what moves without a change of jobs or cases, every so many seconds. */
  const polled = new Map();
  function poll(element) {
    const every = 1000 * Number(element.dataset.every);
    const polledAt = polled.get(element.id) ?? 0;
    if (every === 0 || Date.now() - polledAt < every || failing.has(element.id)) return;
    polled.set(element.id, Date.now());
    refresh(element);
  }
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (!isRefresh(detail)) return;
    const end = refreshing.get(detail.requestConfig.elt.id);
    if (end) setTimeout(end, 0, detail.xhr.status);
  });
  // A link may have led to another part of the page since the refresh was sent. Without an address, it is the page's.
  const addressOf = (element) => element && (element.getAttribute("hx-get") || location.href);
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const { elt, path } = detail.requestConfig;
    if (!isRefresh(detail) || addressOf(document.getElementById(elt.id)) === path) return;
    detail.shouldSwap = false;
    const current = asking.get(elt.id);
    if (current) current.again = true;
  });

  // A refresh changes what differs and leaves the rest in place: selection, focus and the button under the finger stay.
  // A form that can be seen is sent by htmx, also in the first moment.
  if (window.htmx) htmx.config.defaultSettleDelay = 0;
  const load = (src) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.onload = resolve;
    script.onerror = reject;
    setTimeout(reject, PATIENCE);
    script.src = src;
    document.head.append(script);
  });
  // What does that is loaded before the first response that needs it.
  let morphing;
  const touched = new WeakSet();
  document.addEventListener("input", ({ target }) => target.form && touched.add(target.form));
  document.addEventListener("htmx:confirm", (event) => {
    const { elt, issueRequest } = event.detail;
    if (window.Idiomorph || !elt.closest("[hx-swap]")?.getAttribute("hx-swap").startsWith("morph")) return;
    event.preventDefault();
    morphing ??= load(document.body.dataset.morph).then(prepareMorph);
    morphing.then(() => issueRequest(true), () => {
      morphing = undefined;
      refreshing.get(elt.id)?.(0);
    });
  });
  function prepareMorph() {
    const { callbacks } = Idiomorph.defaults;
    // What has the focus and is no field, as a link that was followed, has nothing that a person typed.
    Object.defineProperty(Idiomorph.defaults, "ignoreActiveValue", {
      get: () => document.activeElement.matches("input, textarea, select"),
    });
    // What a person has opened or typed is theirs: a form stays as long as it asks the same, and once it was touched.
    const isKept = (form, fresh) => touched.has(form) || (form.id !== "" && form.id === fresh.id);
    callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.matches("details"));
    callbacks.beforeNodeMorphed = (old, fresh) => !(old.tagName === "FORM" && isKept(old, fresh));
    callbacks.afterNodeMorphed = (node) => node.nodeType === 1 && tell(node);
  }

  // A log that is shown to its end stays at its end.
  const follows = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 24;
  let left = [];
  document.addEventListener("htmx:beforeSwap", () => {
    left = $$("[data-follow]").filter((log) => !follows(log)).map((log) => log.id);
  });
  document.addEventListener("htmx:afterSettle", () => {
    for (const log of $$("[data-follow]")) if (!left.includes(log.id)) toEnd(log);
  });
  function toEnd(log) {
    if (log) log.scrollTop = log.scrollHeight;
  }

  // Lists: rows that are shown change in place; new ones wait behind a button, so that nothing moves.
  const unread = {};
  function updateRows(list, change) {
    const kind = list.dataset.kind;
    if (!change.topics.includes(kind)) return;
    const changed = change.all || change.more ? undefined : new Set(change[kind] ?? []);
    const ids = $$("tr[data-id]", list).map((row) => row.dataset.id);
    unread[kind] ??= new Set();
    for (const id of ids) if (!changed || changed.has(id)) unread[kind].add(id);
    if (unread[kind].size > 0) ask(`${kind} rows`, (over) => readRows(kind, over));
  }

  async function readRows(kind, signal) {
    const list = $(`[data-rows][data-kind=${kind}]`);
    const ids = [...unread[kind]];
    if (!list || ids.length === 0) return undefined;
    unread[kind].clear();
    let status = 0;
    try {
      const response = await fetch(list.dataset.rows + encodeURIComponent(ids.join(",")), { headers: { "HX-Request": "true", ...unattended }, signal });
      if (response.ok) replaceRows(await response.text());
      status = response.status;
      return status;
    } finally {
      if (status < 200 || status >= 400) for (const id of ids) unread[kind].add(id);
    }
  }

  function replaceRows(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    for (const row of $$("tr[data-id]", template.content)) {
      const old = document.getElementById(row.id);
      if (!old || old.isEqualNode(row) || old.contains(document.activeElement)) continue;
      const box = $("input[type=checkbox]", row);
      if (box) box.checked = $("input[type=checkbox]", old).checked;
      row.classList.add("fresh");
      old.replaceWith(row);
      htmx.process(row);
      tell(row);
    }
  }

  function badge(page, count) {
    const link = $(`.nav a[href="/admin/${page}"]`);
    if (!link) return;
    let mark = $(".count", link);
    if (!mark) {
      mark = document.createElement("span");
      link.append(mark);
    }
    mark.className = "count alert";
    mark.hidden = count === 0;
    mark.textContent = String(count);
  }

  // Changes come with the numbers beside pages; those that were missed do not. Each page has them.
  async function readNavigation(signal) {
    const response = await fetch("/admin/help", { headers: { accept: "text/html", ...unattended }, signal });
    if (!response.ok) return response.status;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const name of ["inbox", "failures"])
      badge(name, Number($(`.nav a[href="/admin/${name}"] .count`, page)?.textContent ?? 0));
    return response.status;
  }

  let spokenAt = 0;
  function speak(text) {
    if (Date.now() - spokenAt < 5000) return;
    spokenAt = Date.now();
    $("#spoken").textContent = text;
  }

  // Dialogs
  const dialog = $("#dialog");
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target === dialog && !dialog.open) {
      const title = $("h1, h2", dialog)?.textContent;
      if (title) dialog.setAttribute("aria-label", title);
      dialog.showModal();
    }
    // Counts elsewhere on the page follow the tabs.
    const total = $("#tabs")?.dataset.total;
    if (total !== undefined) for (const mark of $$("[data-matching]")) mark.textContent = total;
    for (const id of ticked) {
      const box = $("input[name=id]", document.getElementById(`row-${id}`) ?? document.createElement("i"));
      if (box) box.checked = true;
    }
    ticked = [];
    counted();
    if (event.detail.requestConfig?.boosted) $("#step")?.scrollIntoView({ block: "nearest" });
    // An answered question's form is removed: the keyboard focus continues from there.
    if (event.detail.target?.matches?.(".ask")) $(`#${CSS.escape(event.detail.target.id)} .done`)?.focus();
  });
  // Rows that a person ticked stay ticked when new ones are shown.
  let ticked = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (!event.detail.requestConfig.elt?.closest?.(".news")) return;
    ticked = $$("input[name=id]:checked").map((box) => box.value);
  });
  // What a person types while results are on their way stays, and is searched for next.
  let typed;
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const search = $("#search");
    typed = undefined;
    if (detail.target?.id !== "results" || !search || search !== document.activeElement) return;
    const { value, selectionStart, selectionEnd } = search;
    const requested = detail.requestConfig.parameters.search ?? search.defaultValue;
    if (value !== requested) typed = { value, selectionStart, selectionEnd };
  });
  document.addEventListener("htmx:afterSwap", () => {
    if (typed) Object.assign($("#search") ?? {}, typed);
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (!typed || event.target.id !== "results") return;
    typed = undefined;
    htmx.trigger($(".filters"), "submit");
  });
  document.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("dialog [data-close]")) {
      event.preventDefault();
      dialog.close();
    }
  });

  const GONE = "The service does not respond. Check that it is running.";
  // What the page asks for by itself, it asks for again; a bar says that it failed.
  const complain = (textOf) => ({ detail }) => isRefresh(detail) || toast(textOf(detail.xhr));
  document.addEventListener("htmx:responseError", complain(messageOf));
  document.addEventListener("htmx:sendError", complain(() => GONE));
  function messageOf(xhr) {
    try {
      const body = JSON.parse(xhr.responseText);
      return [body.error, body.detail].filter(Boolean).join(". ");
    } catch {
      const text = new DOMParser().parseFromString(xhr.responseText, "text/html").body.textContent.trim();
      return text.slice(0, 300) || `The service responded with ${xhr.status}.`;
    }
  }
  document.addEventListener("svc:say", ({ detail }) => toast(detail));
  function toast(text) {
    const note = document.createElement("p");
    note.className = "toast";
    note.textContent = text;
    $("#toasts").append(note);
    setTimeout(() => note.remove(), 7000);
  }

  // A row opens wherever it is pressed, unless something in it is meant, or its text is selected.
  document.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-id]");
    if (!row || event.target.closest("a, button, input, label, summary, .pick, .id") || String(getSelection())) return;
    const link = $("a.title", row);
    if (event.ctrlKey || event.metaKey) window.open(link.href, "_blank", "noopener");
    else link.click();
  });

  // A menu closes when something else is clicked, or one of its actions.
  document.addEventListener("click", ({ target }) => {
    for (const menu of $$("details.menu[open]")) menu.open = menu.contains(target) && !target.closest("a, button");
  });

  // Where the service was not heard just now, a form that leaves the page is sent once it answers: the browser's own page
  // would take what was typed.
  let waiting;
  let isPassed = false;
  document.addEventListener("submit", async (event) => {
    const { target: form, submitter } = event;
    const isHeard = isLive && Date.now() - heardAt < HEARD;
    if (event.defaultPrevented || isPassed || isHeard || form.method !== "post") return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (form === waiting) return;
    waiting = form;
    const signal = AbortSignal.timeout(PATIENCE);
    const isThere = await fetch("/.well-known/health", { method: "HEAD", cache: "no-store", signal }).then(({ status }) => status < 500, () => false);
    waiting = undefined;
    if (!isThere) return toast(`${GONE} Nothing was sent, and what you typed is kept.`);
    // A refresh may have replaced what was pressed.
    if (!form.isConnected) document.body.append(form);
    isPassed = true;
    form.requestSubmit(submitter?.form === form ? submitter : null);
    isPassed = false;
  });

  // What this tab remembers ends with the session.
  document.addEventListener("submit", (event) => {
    if (event.target.matches('[action="/admin/session/end"]')) sessionStorage.clear();
  });

  // Keyboard
  const GO = { d: "/admin/", j: "/admin/jobs", c: "/admin/cases", i: "/admin/inbox", a: "/admin/agents", l: "/admin/console", s: "/admin/server", f: "/admin/failures", t: "/admin/files" };
  let went = 0;
  const finder = $(".foot .find");
  finder?.addEventListener("click", () => {
    if (!finder.dataset.script) return;
    load(finder.dataset.script).catch(() => {});
    delete finder.dataset.script;
  });
  document.addEventListener("keydown", (event) => {
    const isFind = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k";
    if (isFind && finder) {
      event.preventDefault();
      if (!dialog.open) finder.click();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const typing = event.target.matches("input:not([type=checkbox], [type=radio]), select, textarea");
    if (event.key === "Escape" && event.target.id === "search") return event.target.blur();
    if (event.key === "Escape" && !dialog.open) {
      const menu = $("details.menu[open]");
      if (menu) {
        menu.open = false;
        return $("summary", menu).focus();
      }
    }
    if (typing || dialog.open) return;
    if (event.key === "/") {
      const search = $("#search");
      if (!search) return;
      event.preventDefault();
      return search.select();
    }
    if (event.key === "?") return $(".foot .help").click();
    if (event.key === "g") {
      went = Date.now();
      return;
    }
    if (Date.now() - went < 1200 && GO[event.key]) {
      location.href = GO[event.key];
      return;
    }
    if (event.key === "j" || event.key === "k") return step(event.key === "j" ? 1 : -1);
    // A question is answered by keyboard: yes, no, a message; Enter sends it.
    const choice = { y: 'input[value="true"]', n: 'input[value="false"]', e: "input[name=message]" }[event.key];
    const ask = $("main .ask:focus-within") ?? $("main .ask:has(form)");
    const field = choice && ask && $(choice, ask);
    if (field) {
      event.preventDefault();
      if (event.key !== "e") field.checked = true;
      return field.focus();
    }
    if (event.key === "x") return pick();
    if (event.key === "n") return $('a[rel="next"]:not([aria-disabled])')?.click();
    if (event.key === "p") return $('a[rel="prev"]:not([aria-disabled])')?.click();
  });

  function step(by) {
    // A page may have a step of its own.
    if (!document.dispatchEvent(new CustomEvent("svc:step", { detail: by, cancelable: true }))) return;
    const links = $$("main td a.title, main .list a.name, main .gallery a.name, main .fall a, main .ask h2 + .meta a");
    if (links.length === 0) return;
    const row = document.activeElement.closest("tr, li, .w-name, .ask");
    const at = links.findIndex((link) => link === document.activeElement || row?.contains(link));
    const next = links[Math.min(links.length - 1, Math.max(0, at === -1 ? 0 : at + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  function pick() {
    const box = $("input[name=id]", document.activeElement.closest("tr") ?? document.createElement("i"));
    if (!box) return;
    box.checked = !box.checked;
    counted();
  }

  // Selection
  document.addEventListener("change", (event) => {
    if (event.target.closest("#tick-all")) for (const box of $$("input[name=pick]")) box.checked = event.target.checked;
    if (event.target.id === "pick-all") for (const box of $$("input[name=id]")) box.checked = event.target.checked;
    counted();
  });
  function counted() {
    const note = $("#picked");
    if (!note) return;
    const count = $("input[name=all]:checked") ? $("[data-matching]").textContent : $$("input[name=id]:checked").length;
    note.hidden = count === 0;
    $("#range").hidden = count > 0;
    note.textContent = `${count} selected`;
  }

  // Times as the reader wants them, kept current without asking the service.
  const { times, zone } = document.documentElement.dataset;
  const isAbsolute = times === "absolute";
  const format = new Intl.DateTimeFormat("en", {
    ...{ year: "numeric", month: "2-digit", day: "2-digit", hourCycle: "h23", timeZoneName: "shortOffset" },
    ...{ hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 },
    timeZone: zone === "utc" ? "UTC" : undefined,
  });
  const local = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  function stamp(date, part) {
    const of = Object.fromEntries(format.formatToParts(date).map(({ type, value }) => [type, value]));
    const minute = `${of.hour}:${of.minute}`;
    const second = `${minute}:${of.second}`;
    if (part === "tick") return second;
    if (part === "clock") return `${second}.${of.fractionalSecond}`;
    if (part === "day") return `${of.month}-${of.day} ${minute}`;
    const offset = /^GMT(\+0)?$/.test(of.timeZoneName) ? "UTC" : of.timeZoneName;
    return `${of.year}-${of.month}-${of.day} ${part === "minute" ? minute : second} ${offset}`;
  }
  const LABEL = /^\d{4}-\d\d-\d\d \d\d:\d\d (?:UTC|GMT(?:[+-]\d+(?::\d+)?)?)/;
  const write = (place, text) => {
    if (place.textContent !== text) place.textContent = text;
  };
  const hint = (place, text) => {
    if (place.title !== text) place.title = text;
  };
  const UNITS = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];
  function relative(date) {
    const distance = (date - Date.now()) / 1000;
    const size = Math.abs(distance);
    if (size < 5) return "just now";
    const past = distance < 0;
    const [unit, seconds] = UNITS.find(([, length]) => size >= (past ? length : length * 0.99));
    const amount = `${past ? Math.floor(size / seconds) : Math.round(size / seconds)} ${unit}`;
    return past ? `${amount} ago` : `in ${amount}`;
  }
  function tell(root) {
    for (const time of $$("time[data-relative]", root)) {
      const date = new Date(time.dateTime);
      if (Number.isNaN(date.getTime())) continue;
      const [ago, at] = [time.dataset.relative || relative(date), stamp(date)];
      hint(time, isAbsolute ? ago : at);
      write(time, isAbsolute ? at : ago);
    }
    for (const time of $$("time[data-until]", root)) {
      const date = new Date(time.dateTime);
      const [ahead, over] = time.dataset.until.split("|");
      const left = (date - Date.now()) / 1000;
      hint(time, stamp(date));
      write(time, `${left > 0 ? ahead : over} ${lasting(Math.abs(left))}${isAbsolute ? ` (${stamp(date)})` : ""}`);
      time.classList.toggle("late", left <= 0);
    }
    for (const time of $$("time[data-clock]", root)) {
      const date = new Date(time.dataset.clock);
      if (Number.isNaN(date.getTime())) continue;
      hint(time, stamp(date));
      write(time, stamp(date, "clock"));
    }
    if (isAbsolute) {
      for (const kind of ["tick", "day"])
        for (const text of $$(`text[data-${kind}]`, root)) write(text, stamp(new Date(text.dataset[kind]), kind));
    }
    for (const column of $$("[data-from]", root)) {
      const from = stamp(new Date(column.dataset.from), "minute");
      if (column.matches("title")) write(column, column.textContent.replace(LABEL, from));
      else column.setAttribute("aria-label", column.getAttribute("aria-label").replace(LABEL, from));
    }
  }
  document.addEventListener("svc:times", ({ detail }) => tell(detail));
  // At most two units.
  function lasting(length) {
    const seconds = Math.floor(length);
    const at = UNITS.findIndex(([, size]) => seconds >= size);
    const [unit, size] = UNITS[at] ?? ["s", 1];
    const smaller = UNITS[at + 1];
    const rest = at !== -1 && smaller ? Math.floor((seconds % size) / smaller[1]) : 0;
    return `${Math.floor(seconds / size)} ${unit}${rest > 0 ? ` ${rest} ${smaller[0]}` : ""}`;
  }
  setInterval(() => !document.hidden && tell(document), 20_000);

  // What runs has a clock.
  setInterval(() => {
    if (document.hidden || document.body.classList.contains("blind")) return;
    for (const place of $$("[data-since]")) write(place, lasting(Math.max(0, Math.round((Date.now() - Date.parse(place.dataset.since)) / 1000))));
  }, 1000);

  // A refresh reports many parts, one inside of another: their times are written once, before they are painted.
  let isWritten = true;
  function tellOnce() {
    if (!isWritten) return;
    isWritten = false;
    queueMicrotask(() => {
      isWritten = true;
      tell(document);
    });
  }

  function enhance(root) {
    tellOnce();
    for (const box of $$("#pick-all, #tick-all", root)) box.hidden = false;
  }
  document.addEventListener("htmx:load", (event) => enhance(event.detail.elt));
  enhance(document);
  // The zone is sent with the setting: the service then knows it without this script, too.
  const setting = $("#times");
  if (setting) setting.elements.local.value = local;
  if (setting && zone === "local") write($("#zone"), `Zone: ${local}`);
  for (const log of $$("[data-follow]")) toEnd(log);
  connect();
})();
