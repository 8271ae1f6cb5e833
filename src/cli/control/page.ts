/** The page of the development control system: shows incoming messages and controls failures. */
export const CONTROL_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Development control system</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color-scheme: light dark; }
  table { border-collapse: collapse; width: 100%; }
  th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884; vertical-align: top; }
  pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 20rem; overflow: auto; }
  .bad { color: #c33; }
  form { display: flex; gap: .5rem; align-items: center; flex-wrap: wrap; margin: 1rem 0; }
</style>
<h1>Development control system</h1>
<form id="mode">
  <label>Answer with
    <select name="mode">
      <option>ok<option>503<option>500<option>429<option>400<option>401<option>hang<option>reset<option>cut<option>slow
    </select></label>
  <label>for the next <input name="times" type="number" min="1" placeholder="all"> messages</label>
  <label>Retry-After <input name="retry_after" size="6" placeholder="none"></label>
  <button>Apply</button> <output id="state"></output>
</form>
<table>
  <thead><tr><th>#</th><th>Time</th><th>What</th><th>Body</th></tr></thead>
  <tbody id="items"></tbody>
</table>
<script src="/_control/page.js"></script>
</html>`;

export const CONTROL_SCRIPT = `"use strict";
const items = document.getElementById("items");
const cell = (row, text, name) => {
  const td = row.insertCell();
  td.textContent = text;
  if (name) td.className = name;
  return td;
};
new EventSource("/_control/stream").onmessage = ({ data }) => {
  const item = JSON.parse(data);
  const row = items.insertRow(0);
  cell(row, item.n);
  cell(row, item.at.slice(11, 23));
  const body = item.body ?? {};
  const type = body.event_type ?? body.eventType ?? body.type ?? "";
  const what = [item.kind, type, item.duplicate ? "(again)" : "", ...item.problems].join(" ");
  cell(row, what, item.problems.length ? "bad" : "");
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = JSON.stringify(body.source ?? body.agentId ?? "");
  const pre = document.createElement("pre");
  pre.textContent = JSON.stringify(item.body, null, 2);
  details.append(summary, pre);
  row.insertCell().append(details);
  while (items.rows.length > 500) items.deleteRow(-1);
};
document.getElementById("mode").onsubmit = async (event) => {
  event.preventDefault();
  const form = new FormData(event.target);
  const order = { mode: form.get("mode") };
  if (form.get("times")) order.times = Number(form.get("times"));
  if (form.get("retry_after")) order.retry_after = form.get("retry_after");
  const response = await fetch("/_control/mode", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(order),
  });
  document.getElementById("state").textContent = response.ok ? "now " + order.mode : await response.text();
};
`;
