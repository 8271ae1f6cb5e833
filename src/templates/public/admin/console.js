// The console page: appends lines as they arrive, within bounds; pauses, follows, filters on the server.
(() => {
  "use strict";
  const log = document.getElementById("log");
  const form = document.getElementById("log-filter");
  const pause = document.getElementById("pause");
  const follow = document.getElementById("follow");
  const download = document.getElementById("download");
  const signal = document.getElementById("signal");
  const most = Number(log.dataset.most);
  let last = Number(log.dataset.after);
  let source;

  pause.hidden = false;
  document.getElementById("follow-box").hidden = false;

  function query(extra) {
    const values = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...values]) if (value === "") values.delete(name);
    for (const [name, value] of Object.entries(extra)) values.set(name, value);
    return values.toString();
  }

  const isPaused = () => pause.getAttribute("aria-pressed") === "true";
  function connect() {
    source?.close();
    if (isPaused()) return;
    source = new EventSource(`${log.dataset.stream}?${query({ after: String(last) })}`);
    source.addEventListener("hello", () => {
      state("live", "Live");
      arrived(200);
    });
    source.addEventListener("line", (event) => {
      last = Number(event.lastEventId);
      append(JSON.parse(event.data));
    });
    source.addEventListener("gap", (event) => {
      append({ time: "", clock: "", level: "warn", message: `${event.data} lines were dropped: they arrived faster than they could be kept.`, fields: "" });
    });
    source.onerror = () => {
      source.close();
      state("lost", "Reconnecting");
      arrived(0);
    };
  }
  // The page repeats what failed, and says so.
  const arrived = (status) =>
    document.dispatchEvent(new CustomEvent("svc:arrived", { detail: { key: "lines", status, again: connect } }));
  // After the network has fallen silent, this stream may not have noticed.
  document.addEventListener("svc:change", ({ detail }) => {
    if (detail.all) connect();
  });

  function append(line) {
    const row = document.createElement("p");
    const time = document.createElement("time");
    time.dataset.clock = line.time;
    time.textContent = line.clock;
    const level = document.createElement("span");
    level.className = `lv lv-${line.level}`;
    level.textContent = line.level;
    const message = document.createElement("span");
    message.className = "msg";
    message.textContent = `${line.message} `;
    const fields = document.createElement("span");
    fields.className = "fields";
    fields.textContent = line.fields;
    message.append(fields);
    row.append(time, level, message);
    log.append(row);
    document.dispatchEvent(new CustomEvent("svc:times", { detail: row }));
    while (log.childElementCount > most) log.firstElementChild.remove();
    if (follow.checked) log.scrollTop = log.scrollHeight;
  }

  function state(name, text) {
    signal.hidden = false;
    signal.dataset.state = name;
    signal.textContent = text;
  }

  pause.addEventListener("click", () => {
    const paused = !isPaused();
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume" : "Pause";
    if (!paused) return connect();
    source?.close();
    arrived(200);
    state("off", "Paused");
  });

  // Scrolling up means reading: following stops, and continues at the end.
  log.addEventListener("scroll", () => {
    follow.checked = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  });
  follow.addEventListener("change", () => {
    if (follow.checked) log.scrollTop = log.scrollHeight;
  });

  let typing;
  function refilter() {
    const search = query({});
    history.replaceState(null, "", search ? `?${search}` : location.pathname);
    download.href = `/admin/api/console/download${search ? `?${search}` : ""}`;
    log.replaceChildren();
    last = 0;
    connect();
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    refilter();
  });
  form.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(refilter, 250);
  });

  log.scrollTop = log.scrollHeight;
  connect();
})();
