import { readFileSync } from "node:fs";
import { html } from "agent-control-service/plugin";
import { expect, it } from "vitest";
import { formatRelative } from "../../src/core/base/relative-time.ts";
import type { AgentMethodField } from "../../src/core/models/agent-method-field.ts";
import { readFields, renderFields } from "../../src/plugins/admin/forms/fields.ts";
import { negotiate } from "../../src/plugins/admin/negotiate.ts";
import { toTimeSetting, withTimes, writeTimes } from "../../src/plugins/admin/times.ts";
import { niceTop, renderChart } from "../../src/plugins/admin/views/chart.ts";
import { formatBytes, formatCost, formatDuration } from "../../src/plugins/admin/views/format.ts";
import { renderJson } from "../../src/plugins/admin/views/json-tree.ts";

it.each([
  [0, "0 ms"],
  [340, "340 ms"],
  [1200, "1.2 s"],
  [59_900, "60 s"],
  [184_000, "3 min 4 s"],
  [3_600_000, "1 h"],
  [190_800_000, "2 d 5 h"],
])("%i milliseconds read %s", (milliseconds, text) => {
  expect(formatDuration(milliseconds)).toBe(text);
});

it.each([
  [0, "$0"],
  [0.0021, "$0.0021"],
  [0.0000895, "$0.000089"],
  [0.00008950000000000001, "$0.000089"],
  [0.25, "$0.25"],
  [0.5, "$0.50"],
  [1.5, "$1.50"],
  [1234.5, "$1,234.50"],
  [12_400, "$12,400"],
  [-2, "−$2.00"],
  [Number.NaN, "$0"],
])("a cost of %d reads %s", (cost, text) => {
  expect(formatCost(cost, "$")).toBe(text);
});

it("a page has its times as its reader wants them, and no other text changes", () => {
  const page =
    '<time datetime="2026-07-01T22:30:00.000Z" title="2026-07-01 22:30:00 UTC" data-relative>1 h ago</time>' +
    '<time class="due" datetime="2026-07-01T22:30:00.000Z" title="2026-07-01 22:30:00 UTC" data-until="due in|late">due in 3 h</time>' +
    '<time data-clock="2026-07-01T22:30:00.123Z">22:30:00.123</time><text x="1" data-tick="2026-07-01T22:30:00.000Z">0</text>' +
    '<title data-from="2026-07-01T22:00:00.000Z">2026-07-01 22:00 UTC: 3</title><p>2026-07-01 22:30:00 UTC, &lt;time</p>';
  const shown = (form: "relative" | "absolute", zone: "local" | "utc", local = "") =>
    withTimes(page, { form, zone, local });

  expect(shown("relative", "utc")).toBe(page);
  expect(shown("relative", "local")).toBe(page);
  expect(shown("relative", "local", "Europe/Berlin")).toBe(
    '<time datetime="2026-07-01T22:30:00.000Z" title="2026-07-02 00:30:00 GMT+2" data-relative>1 h ago</time>' +
      '<time class="due" datetime="2026-07-01T22:30:00.000Z" title="2026-07-02 00:30:00 GMT+2" data-until="due in|late">due in 3 h</time>' +
      '<time data-clock="2026-07-01T22:30:00.123Z">00:30:00.123</time><text x="1" data-tick="2026-07-01T22:30:00.000Z">0</text>' +
      '<title data-from="2026-07-01T22:00:00.000Z">2026-07-02 00:00 GMT+2: 3</title><p>2026-07-01 22:30:00 UTC, &lt;time</p>',
  );
  expect(shown("absolute", "utc", "Europe/Berlin")).toBe(
    '<time datetime="2026-07-01T22:30:00.000Z" title="1 h ago" data-relative>2026-07-01 22:30:00 UTC</time>' +
      '<time class="due" datetime="2026-07-01T22:30:00.000Z" title="2026-07-01 22:30:00 UTC" data-until="due in|late">due in 3 h (2026-07-01 22:30:00 UTC)</time>' +
      '<time data-clock="2026-07-01T22:30:00.123Z">22:30:00.123</time><text x="1" data-tick="2026-07-01T22:30:00.000Z">22:30:00</text>' +
      '<title data-from="2026-07-01T22:00:00.000Z">2026-07-01 22:00 UTC: 3</title><p>2026-07-01 22:30:00 UTC, &lt;time</p>',
  );
});

it("a setting of times that nobody can have made is ignored", () => {
  const evil = toTimeSetting({ form: "x", zone: "utc", local: "Europe/Berlin; Path=/" });

  expect(writeTimes(evil)).toBe("relative.utc.");
  expect(toTimeSetting({ form: null, zone: null, local: "Nowhere/Land" }).local).toBe("");
  expect(toTimeSetting({ form: "absolute", zone: null, local: "Asia/Kolkata" })).toEqual({
    form: "absolute",
    zone: "local",
    local: "Asia/Kolkata",
  });
});

it("times are shown relative to now", () => {
  const now = new Date("2026-01-01T12:00:00Z");
  const at = (seconds: number) => formatRelative(new Date(now.getTime() + seconds * 1000), now);

  expect([at(0), at(-30), at(-90), at(-7200), at(3600), at(172_800)]).toEqual([
    "just now",
    "30 s ago",
    "1 min ago",
    "2 h ago",
    "in 1 h",
    "in 2 d",
  ]);
  expect([at(172_800 - 20), at(3600 - 5), at(100_000)]).toEqual(["in 2 d", "in 1 h", "in 1 d"]);
});

it.each([
  [12, "12 B"],
  [3400, "3.4 kB"],
  [1_200_000, "1.2 MB"],
])("%i bytes read %s", (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

it("a tree escapes keys and values and stays bounded", () => {
  const hostile = {
    "<b>": '"><script>alert(1)</script>',
    list: Array.from({ length: 5000 }, (_, index) => index),
  };

  const tree = renderJson(hostile);

  expect(tree).not.toContain("<script");
  expect(tree).not.toContain("<b>");
  expect(tree).toContain("&lt;script&gt;");
  expect(tree).toContain("more, not shown here");
  expect(tree.length).toBeLessThan(60_000);
});

it("a long text of a tree is folded, a short one is not", () => {
  const report = (lines: number) => Array.from({ length: lines }, (_, line) => `<line> ${line}`).join("\n");

  const [long, short] = [renderJson({ text: report(400) }), renderJson({ text: report(40) })];

  expect(long).toContain("<details><summary>&lt;line&gt; 0 … 400 lines</summary>");
  expect(long).toContain("&lt;line&gt; 0\n&lt;line&gt; 1\n");
  expect(short).not.toContain("<details");
});

it("html escapes every value but html itself", () => {
  const inner = html`<i>${"<x>"}</i>`;

  expect(html`<p title="${'"&'}">${inner}${["<", 1, null, undefined, false]}</p>`.toString()).toBe(
    '<p title="&quot;&amp;"><i>&lt;x&gt;</i>&lt;1</p>',
  );
});

it("a chart has its numbers as text, too", () => {
  const chart = renderChart(
    [
      {
        label: "10:00",
        parts: [
          { name: "completed", count: 3 },
          { name: "failed", count: 1 },
        ],
      },
    ],
    "Jobs",
  );

  expect(chart).toContain('aria-label="Jobs: 4 jobs (3 completed, 1 failed)"');
  expect(chart).toContain("<title>10:00: 3 completed, 1 failed</title>");
  expect([0, 9, 13, 21, 41, 1000].map(niceTop)).toEqual([4, 10, 15, 25, 50, 1000]);
});

const field = (
  name: string,
  field_type: AgentMethodField["field_type"],
  more: Partial<AgentMethodField> = {},
) => ({
  name,
  field_type,
  type: null,
  description: null,
  choices: null,
  default: null,
  widget: null,
  required: false,
  ...more,
});

it("a form returns values in the types of its fields", () => {
  const fields = [
    field("text", "CharField"),
    field("count", "IntegerField"),
    field("share", "FloatField"),
    field("on", "BooleanField"),
    field("sure", "BooleanField", { required: true }),
    field("one", "ChoiceField", { choices: ["a", "b"] }),
    field("many", "MultipleChoiceField", { choices: ["a", "b"] }),
    field("at", "DateTimeField"),
    field("data", "JSONField"),
    field("left", "CharField"),
    field("wrong", "IntegerField"),
    field("__proto__", "CharField"),
  ];
  const form = new URLSearchParams([
    ["f.text", "hello"],
    ["f.count", "3"],
    ["f.share", "0.5"],
    ["f.sure", "false"],
    ["f.one", "b"],
    ["f.many", "a"],
    ["f.many", "b"],
    ["f.at", "2026-01-02T03:04"],
    ["f.data", '{"deep":[1]}'],
    ["f.left", ""],
    ["f.wrong", "three"],
    ["f.__proto__", "safe"],
  ]);

  const values = readFields(form, fields);

  expect(Object.entries(values)).toEqual([
    ["text", "hello"],
    ["count", 3],
    ["share", 0.5],
    ["on", false],
    ["sure", false],
    ["one", "b"],
    ["many", ["a", "b"]],
    ["at", "2026-01-02T03:04:00.000Z"],
    ["data", { deep: [1] }],
    ["wrong", "three"],
    ["__proto__", "safe"],
  ]);
});

it.each([
  ["two", ["damaged", "late"], 2],
  ["many", ["a", "b", "c", "d", "e", "f"], 0],
])("a required choice of %s has no preselected option", (_, choices, radios) => {
  const fields = [field("reason", "ChoiceField", { choices, required: true })];

  const text = renderFields(fields, { id: "f" }).toString();
  const sent = readFields(new URLSearchParams([["f.reason", ""]]), fields);

  expect(text).not.toMatch(/checked|<option value="[^"]+" selected/);
  expect(text.match(/type="radio"/g)?.length ?? 0).toBe(radios);
  if (radios === 0) expect(text).toMatch(/<select[^>]* required>\s*<option value="" selected>Choose…/);
  expect(sent).toEqual({});
});

it("a choice that an agent presets is shown as selected", () => {
  const preset = field("reason", "ChoiceField", { choices: ["a", "b"], required: true, default: "b" });

  expect(renderFields([preset], { id: "f" }).toString()).toContain('value="b" checked');
});

it("choices that were all removed are sent as an empty list", () => {
  const fields = [field("many", "MultipleChoiceField", { choices: ["a", "b"], default: ["a"] })];

  expect(readFields(new URLSearchParams(), fields)).toEqual({ many: [] });
});

it("a form shows the entered values and their problems, escaped", () => {
  const fields = [field('x"><script>', "CharField", { description: "<b>", required: true })];
  const typed = new URLSearchParams([['f.x"><script>', "<i>"]]);

  const text = renderFields(fields, {
    id: "f",
    typed,
    problems: { 'x"><script>': "must be <short>" },
  }).toString();

  expect(text).not.toMatch(/<script|<b>|<i>|<short>/);
  expect(text).toContain('aria-invalid="true"');
  expect(text).toContain("must be &lt;short&gt;");
});

it("the first field of a form that has a problem has the focus", () => {
  const fields = [
    field("name", "CharField"),
    field("sure", "BooleanField", { required: true }),
    field("amount", "IntegerField"),
  ];
  const focused = (problems: Record<string, string>) =>
    [
      ...renderFields(fields, { id: "f", problems })
        .toString()
        .matchAll(/<\w+[^>]* name="([^"]*)"[^>]* autofocus/g),
    ].map(([, name]) => name);

  expect(focused({})).toEqual([]);
  expect(focused({ amount: "is required" })).toEqual(["f.amount"]);
  expect(focused({ sure: "is required", amount: "is required" })).toEqual(["f.sure"]);
});

it.each([
  ["page", {}, "page"],
  ["page", { accept: "text/html,application/xhtml+xml,*/*;q=0.8" }, "page"],
  ["page", { accept: "application/json" }, "json"],
  ["page", { "hx-request": "true" }, "fragment"],
  ["page", { "hx-request": "true", "hx-history-restore-request": "true" }, "page"],
  ["api", {}, "json"],
  ["api", { accept: "*/*" }, "json"],
  ["api", { accept: "application/json, text/html;q=0.5" }, "json"],
  ["api", { accept: "text/html, application/json;q=0.5" }, "fragment"],
  ["api", { "hx-request": "true", accept: "application/json" }, "fragment"],
] as const)("a %s route requested with %j returns a %s", (route, headers, wanted) => {
  const event = { req: { headers: new Headers(headers) } };

  expect(negotiate(event as never, route)).toBe(wanted);
});

it("two rules of the style sheet do not lay out one class in two ways", () => {
  const css = readFileSync(new URL("../../src/templates/public/admin/admin.css", import.meta.url), "utf8")
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    // What a condition changes, it changes on purpose.
    .replaceAll(/@[^{};]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}/g, "");
  const selectors = [...css.matchAll(/([^{}]+)\{[^{}]*display:/g)].map(([, selector = ""]) =>
    selector.trim(),
  );

  expect(selectors.length).toBeGreaterThan(50);
  expect(selectors.filter((one, at) => selectors.indexOf(one) !== at)).toEqual([]);
});
