// @long
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { type Desk, deskFateOf, fillDesk } from "../../bench/desk/seed.ts";
import { requirement } from "../_require.ts";
import { DESKTOP, launch, visit } from "./_browser.ts";

const chromium = requirement("chromium");
let browser: Browser;
let folder: string;
let desk: Desk;
/** The first job in each of some states. */
const first: Record<string, string> = {};

beforeAll(async () => {
  if (!chromium.met) return;
  folder = mkdtempSync(join(tmpdir(), "svc-design-"));
  [browser, desk] = await Promise.all([launch(), fillDesk(folder, 120)]);
  for (const state of [
    "held",
    "failed",
    "waiting_for_answer",
    "waiting_for_event",
    "completed",
    "cancelled",
  ]) {
    const response = await desk.server.request(`/admin/api/jobs?status=${state}&limit=1`);
    const { items } = (await response.json()) as { items: { id: string }[] };
    first[state] = items[0]!.id;
  }
});
afterAll(async () => {
  await browser?.close();
  await desk?.[Symbol.asyncDispose]();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

async function open({ url, key }: { readonly url: string; readonly key: string }) {
  const { page, context } = await visit(browser, url, DESKTOP, { extraHTTPHeaders: { "x-api-key": key } });
  return {
    page,
    go: (path: string) => page.goto(`${url}/admin/${path}`),
    [Symbol.asyncDispose]: () => context.close(),
  };
}

/** What a color is called: by its hue, or gray where it has next to none. */
function nameOf(color: string): string {
  const [red = 0, green = 0, blue = 0] = (color.match(/[\d.]+/g) ?? []).map((part) => Number(part) / 255);
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  if (most - least < 0.065) return "gray";
  const turn =
    most === red
      ? (green - blue) / (most - least)
      : most === green
        ? 2 + (blue - red) / (most - least)
        : 4 + (red - green) / (most - least);
  const hue = (turn * 60 + 360) % 360;
  return HUES.find(([to]) => hue < to)![1];
}
const HUES = [
  ...([
    [18, "red"],
    [60, "amber"],
    [165, "green"],
    [235, "blue"],
    [262, "indigo"],
    [310, "violet"],
    [361, "red"],
  ] as const),
] as const;

const styleOf = (page: Page, selector: string, property: string) =>
  page.evaluate<string>(
    `getComputedStyle(document.querySelector(${JSON.stringify(selector)})).getPropertyValue(${JSON.stringify(property)})`,
  );

/** Page, element, what of it has a color, and which. */
const COLORS: readonly (readonly [page: () => string, selector: string, property: string, color: string])[] =
  [
    [() => "", ".needs .st-held", "color", "violet"],
    [() => "jobs?status=held", "td .st-held", "color", "violet"],
    [() => "inbox", ".asks .st-held", "color", "violet"],
    [() => `cases/${first.held}-0`, ".ask .note", "border-left-color", "violet"],
    [() => `jobs/${first.held}`, ".verdict", "border-left-color", "violet"],
    [() => `jobs/${first.held}`, ".note.held", "border-left-color", "violet"],
    [() => `jobs/${first.held}`, "#fall-hatch .w-hatch", "fill", "gray"],
    [() => `jobs/${first.failed}`, ".verdict", "border-left-color", "red"],
    [() => `jobs/${first.failed}`, ".verdict > pre", "background-color", "red"],
    [() => `jobs/${first.failed}`, ".st-failed", "color", "red"],
    [() => `jobs/${first.failed}`, ".fall .w-failed", "fill", "red"],
    [() => `jobs/${first.cancelled}`, ".verdict > pre", "background-color", "gray"],
    [() => `jobs/${first.cancelled}`, ".verdict", "border-left-color", "gray"],
    [() => `jobs/${first.waiting_for_answer}`, ".verdict", "border-left-color", "amber"],
    [() => `jobs/${first.waiting_for_answer}`, ".st-awaiting", "color", "amber"],
    [() => `jobs/${first.waiting_for_answer}`, ".fall .w-waiting", "fill", "amber"],
    [() => `jobs/${first.waiting_for_event}`, ".verdict .st", "color", "gray"],
    [() => `jobs/${first.waiting_for_event}`, ".verdict", "border-left-color", "gray"],
    [() => `jobs/${first.waiting_for_event}`, "#step .st", "color", "gray"],
    [() => `jobs/${first.waiting_for_answer}`, "#step .st", "color", "amber"],
    [() => `jobs/${first.completed}`, ".verdict .st-completed", "color", "green"],
  ];

describe("colors", () => {
  for (const colorScheme of ["light", "dark"] as const) {
    chromium.it(`say one thing each, in the ${colorScheme} theme`, async () => {
      await using at = await open(desk.server);
      await at.page.emulateMedia({ colorScheme });
      const found = [];
      for (const [path, selector, property] of COLORS) {
        await at.go(path());
        await at.page.locator(selector).first().waitFor({ state: "attached" });
        found.push([path(), selector, nameOf(await styleOf(at.page, selector, property))]);
      }

      expect(found).toEqual(COLORS.map(([path, selector, , color]) => [path(), selector, color]));
    });
  }
});

/** Every page with much on it. */
const PAGES = () => [
  ...[
    "",
    "?range=30d",
    "jobs",
    "cases",
    "inbox",
    "failures",
    "failures?days=30",
    "deleted",
    "agents",
    "models",
  ],
  ...[
    "agents/refund-desk",
    "agents/refund-desk/start",
    "events",
    "events/waiting",
    "audit",
    "server",
    "sessions",
  ],
  ...["deliveries", "access", "files", "schedules", "console", "find", "help", "deleted-cases"],
  ...Object.values(first).map((id) => `jobs/${id}`),
  ...["log", "calls", "history"].map((tab) => `jobs/${first.completed}?tab=${tab}`),
  ...[`jobs/${first.failed}/compare`, `jobs/${first.failed}/compare?with=${first.completed}`],
  ...[`jobs/${first.failed}/retry`, `jobs/${first.held}/continue`, `jobs/${first.failed}/delete`],
];

/** Sizes of texts, with an example of each. */
const SIZES = `(() => {
  const sizes = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement: one, textContent } = walker.currentNode;
    if (!textContent.trim() || !one.getClientRects().length || one.closest("script, style")) continue;
    sizes[getComputedStyle(one).fontSize] ??= one.tagName + "." + one.getAttribute("class") + ": " + textContent.trim().slice(0, 30);
  }
  return sizes;
})()`;

describe("texts", () => {
  chromium.it("have one of four sizes, on a phone of five: titles of pages 20, of sections 15", async () => {
    await using at = await open(desk.server);
    const odd: unknown[] = [];
    for (const path of PAGES()) {
      await at.go(path);
      for (const [width, sizes] of [
        [1440, ["12px", "13px", "15px", "20px"]],
        [900, ["12px", "13px", "15px", "20px"]],
        [360, ["12px", "13px", "14px", "15px", "20px"]],
      ] as const) {
        await at.page.setViewportSize({ width, height: 900 });
        const found = Object.entries(await at.page.evaluate<Record<string, string>>(SIZES));
        odd.push(
          ...found.filter(([size]) => !sizes.some((one) => one === size)).map((one) => [path, width, ...one]),
        );
      }
      for (const [selector, size] of [
        [".top h1", "20px"],
        [".panel > header h2", "15px"],
      ] as const) {
        if ((await at.page.locator(selector).count()) === 0) continue;
        expect([path, selector, await styleOf(at.page, selector, "font-size")]).toEqual([
          path,
          selector,
          size,
        ]);
      }
    }

    expect(odd).toEqual([]);
  });

  chromium.it("have the terms of the field, and say that all is well only where it is", async () => {
    await using at = await open(desk.server);
    const odd: unknown[] = [];
    for (const path of PAGES()) {
      await at.go(path);
      const words = await at.page.evaluate<string>("document.body.innerText");
      const found = words.match(
        /.*(?:\d (?:of 100|%) .*within|all is well|dearest|most attempts of|in_progress|code_changed).*/i,
      );
      if (found) odd.push([path, found[0]]);
    }
    await at.go("");
    const dashboard = (await at.page.locator("main").textContent())!.replace(/\s+/g, " ");
    await using calm = await testServer({ agents: [idle] });
    await using beside = await open(calm);
    await beside.go("");

    expect(odd).toEqual([]);
    expect(dashboard).toMatch(/Median duration ?\d+ m?sp95 /);
    expect(dashboard).not.toMatch(/Nothing needs you|all is well/i);
    expect(await beside.page.locator(".needs").textContent()).toMatch(/Nothing needs you\./);
  });
});

/** Parts that scroll sideways, and texts that are cut and in no tooltip. */
const LOST = `(() => {
  const found = [];
  for (const one of document.querySelectorAll("main *")) {
    if (!one.checkVisibility() || one.closest("details:not([open]) > :not(summary), .sr, .tabs")) continue;
    const { overflowX, clipPath } = getComputedStyle(one);
    if (one.scrollWidth <= one.clientWidth + 1 || clipPath.startsWith("inset")) continue;
    const name = one.className + ": " + one.textContent.trim().replace(/\\s+/g, " ").slice(0, 40);
    if (overflowX === "auto" || overflowX === "scroll") found.push("scrolls " + name);
    if (overflowX === "hidden" && !one.closest("[title]") && !one.parentElement.querySelector("[title]")) found.push("cut " + name);
  }
  return found;
})()`;

/** Times in two lines, axes of several marks with one label, and bars that are thinner than a pixel. */
const UNREADABLE = `(() => {
  const lines = (one) => new Set([...one.getClientRects()].map(({ top }) => Math.round(top))).size;
  const times = [...document.querySelectorAll("main time")].filter((one) => one.checkVisibility() && lines(one) > 1);
  const axes = [...document.querySelectorAll(".ticks svg")].filter((one) => {
    const labels = [...one.querySelectorAll("text")];
    return labels.length > 1 && labels.filter((label) => label.getClientRects().length > 0).length < 2;
  });
  const bars = [...document.querySelectorAll(".w-bars rect:not(.w-open)")].filter((one) => {
    const { stroke, strokeWidth } = getComputedStyle(one);
    return one.getBBox().width + (stroke === "none" ? 0 : Number.parseFloat(strokeWidth)) < 1;
  });
  const counts = { times: times.length, axes: axes.length, bars: bars.length };
  return Object.entries(counts).filter(([, count]) => count > 0).map((one) => one.join(" "));
})()`;

chromium.it(
  "no page scrolls sideways in a part of it, what is cut is whole in a tooltip, and times and timelines are readable",
  async () => {
    await using at = await open(desk.server);
    const odd: unknown[] = [];
    for (const path of PAGES()) {
      await at.go(path);
      for (const width of [360, 768, 1440]) {
        await at.page.setViewportSize({ width, height: 900 });
        for (const check of [LOST, UNREADABLE])
          odd.push(...(await at.page.evaluate<string[]>(check)).map((one) => [path, width, one]));
      }
    }

    expect(odd).toEqual([]);
  },
);

chromium.it("the list of jobs has one tab for each state, whatever its address calls it", async () => {
  for (const status of ["stopping", "cancelling", "waiting_for_answer", "awaiting", "stopped", "queued"]) {
    const path = `/admin/jobs?status=${status}`;
    const html = await (await desk.server.request(path, { headers: { accept: "text/html" } })).text();
    const [tabs] = /<nav[^>]* id="tabs"[\s\S]*?<\/nav>/.exec(html)!;
    const labels = [...tabs.matchAll(/<a [^>]*>([^<]*)</g)].map(([, label]) => label);

    expect(labels.length).toBeGreaterThan(5);
    expect([status, labels]).toEqual([status, [...new Set(labels)]]);
    expect([status, tabs.match(/aria-current/g)?.length]).toEqual([status, 1]);
  }
});

chromium.it("on a phone, the list of keys begins with its title, and its end is in sight", async () => {
  await using at = await open(desk.server);
  await at.page.setViewportSize({ width: 360, height: 560 });
  await at.go("jobs");
  await at.page.keyboard.press("?");
  const dialog = at.page.getByRole("dialog");
  await dialog.getByText("Next and previous row").waitFor();
  const title = (await dialog.getByRole("heading", { name: "Keyboard" }).boundingBox())!;
  const close = (await dialog.getByRole("link", { name: "Close" }).boundingBox())!;

  expect(title.y).toBeGreaterThan(0);
  expect(close.y + close.height).toBeLessThan(560);
});

/** Dates in two lines, and how much wider than its window a page is. */
const BROKEN = `(() => {
  const lines = (node, from, to) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size;
  };
  const broken = [...document.querySelectorAll("main time")].filter((one) => {
    const at = one.textContent.search(/\\d{4}-\\d\\d-\\d\\d/);
    return at >= 0 && one.checkVisibility() && lines(one.firstChild, at, at + 10) > 1;
  });
  const { scrollWidth, clientWidth } = document.documentElement;
  return [...broken.slice(0, 1).map((one) => one.textContent), ...(scrollWidth > clientWidth ? [scrollWidth] : [])];
})()`;

chromium.it("no absolute time is broken inside its date, or wider than its page", async () => {
  await using at = await open(desk.server);
  await at.page.context().addCookies([{ name: "svc-times", value: "absolute.utc.", url: desk.server.url }]);
  const odd: unknown[] = [];
  let seen = 0;
  for (const path of PAGES()) {
    await at.go(path);
    seen += await at.page.locator("time", { hasText: /\d{4}-\d\d-\d\d/ }).count();
    for (const width of [360, 768]) {
      await at.page.setViewportSize({ width, height: 900 });
      odd.push(...(await at.page.evaluate<unknown[]>(BROKEN)).map((one) => [path, width, one]));
    }
  }

  expect(seen).toBeGreaterThan(100);
  expect(odd).toEqual([]);
});

chromium.it("a link of a timeline says what it does next, once it was followed", async () => {
  await using at = await open(desk.server);
  const partly = Array.from({ length: 90 }, (_, n) => n).find((n) => deskFateOf(n) === "partly")!;
  await at.go(`jobs/job-${partly}`);
  const only = at.page.locator(".panel > header a", { hasText: /Failed only|All lines/ });
  await only.click();

  await expect.poll(() => only.getAttribute("href")).toBe("?");
  expect(await only.textContent()).toBe("All lines");
});

chromium.it("a job that completed after a retry shows no traceback of the run that failed", async () => {
  await using at = await open(desk.server);
  const retried = Array.from({ length: 90 }, (_, n) => n).find((n) => deskFateOf(n) === "retried")!;
  await at.go(`jobs/job-${retried}`);

  expect(await at.page.locator(".verdict").textContent()).toMatch(/Completed in/);
  expect(await at.page.locator(".verdict details").count()).toBe(0);
  await at.go(`jobs/${first.failed}`);
  expect(await at.page.locator(".verdict details").textContent()).toMatch(/Traceback/);
});

chromium.it(
  "in compact rows on a phone, the head of a list is above its first row, and not over it",
  async () => {
    await using at = await open(desk.server);
    await at.page.setViewportSize({ width: 360, height: 850 });
    await at.go("jobs");
    await at.page.evaluate('document.documentElement.dataset.density = "compact"');
    const over = await at.page.evaluate<number>(`(() => {
    const top = document.querySelector(".rows tbody tr").getBoundingClientRect().top;
    return [...document.querySelectorAll(".rows thead a")].filter((one) => one.getBoundingClientRect().bottom > top).length;
  })()`);

    expect(over).toBe(0);
  },
);

/** Parts that are one thing to the reader, and so in one line: the page, a width, the parts. */
const BESIDE: readonly [path: string, width: number, one: string, other: string][] = [
  ...[360, 768].flatMap((width): typeof BESIDE => [
    ["jobs?tag=customer:c4&limit=25", width, "[rel=prev]", "[rel=next]"],
    ["jobs?tag=customer:c4&limit=25", width, "[href*='format=csv']", "[href*='format=json']"],
  ]),
  ["events?name=ruling", 360, ".filters button", ".filters a"],
  ["jobs?status=held", 360, ".views [aria-current]", ".views form"],
  ["deleted", 768, "tbody form", "tbody .danger"],
  ["?range=30d", 768, ".groups .big", ".groups .name"],
];

chromium.it("what belongs together is in one line", async () => {
  await using at = await open(desk.server);
  for (const [name, query] of [
    ["Failed at a customer of the last week", "status=failed"],
    ["Held", "status=held"],
  ]) {
    const response = await at.page.request.post(`${desk.server.url}/admin/views`, {
      ...{ form: { name, query }, headers: { origin: desk.server.url }, maxRedirects: 0 },
    } as { form: Record<string, string> });
    expect(response.status()).toBe(303);
  }
  const apart: unknown[] = [];
  for (const [path, width, one, other] of BESIDE) {
    await at.page.setViewportSize({ width, height: 900 });
    await at.go(path);
    const [left, right] = await Promise.all(
      [one, other].map(async (part) => (await at.page.locator(part).first().boundingBox())!),
    );
    const gap = right!.x - left!.x - left!.width;
    const isInLine = right!.y < left!.y + left!.height && left!.y < right!.y + right!.height;
    if (!isInLine || gap < 0 || gap > 40) apart.push([path, width, one, left, right]);
  }

  expect(apart).toEqual([]);
});

chromium.it("of two times in one head, the one by which a list is sorted is marked", async () => {
  await using at = await open(desk.server);
  await at.go("jobs?sort=-updated_at");
  const colors = await at.page.evaluate<string[]>(
    `[".rows th a:has(.i)", ".rows th a:not(:has(.i))"].map((one) => getComputedStyle(document.querySelector(one)).color)`,
  );

  expect(colors[0]).not.toBe(colors[1]);
});

chromium.it("a held job is held in the preview of an action and in what a search finds, too", async () => {
  await using at = await open(desk.server);
  await at.go("jobs?status=held");
  await at.page.locator("input[name=id]").first().check();
  await at.page.getByRole("button", { name: "Continue held" }).click();
  const mark = await at.page.locator("#bulk .st").first().textContent();
  await at.go(`find?q=${first.held}`);
  const found = await at.page.locator(".found li").filter({ hasText: "Job" }).first().textContent();

  expect(mark).toBe("Held");
  expect(found).toMatch(/Held/);
});

for (const [path, none] of [
  ["deliveries", /^\d+ in total$/],
  ["jobs", /^1–\d+ of \d+ jobs$/],
] as const)
  chromium.it(`what is ticked in ${path} is counted: some, or none`, async () => {
    await using at = await open(desk.server);
    const errors: string[] = [];
    at.page.on("pageerror", ({ message }) => errors.push(message));
    await at.go(path);
    const note = at.page.locator(".bulk > .grow > :visible");
    const untouched = await note.textContent();
    const boxes = at.page.locator("input[name=id]");
    await boxes.nth(0).check();
    await boxes.nth(1).check();
    expect(await note.textContent()).toBe("2 selected");
    await boxes.nth(0).uncheck();
    await boxes.nth(1).uncheck();

    expect(untouched).toMatch(none);
    expect(await note.textContent()).toBe(untouched);
    expect(errors).toEqual([]);
  });

chromium.it(
  "dead letters are dropped once a person has agreed to that, and only those that were ticked",
  async () => {
    await using at = await open(desk.server);
    const total = async () => Number((await at.page.locator("#range").textContent())!.match(/\d+/)![0]);
    await at.go("deliveries");
    const before = await total();
    await at.page.locator("input[name=id]").nth(0).check();
    await at.page.locator("input[name=id]").nth(1).check();
    await at.page.getByRole("button", { name: "Drop" }).click();
    await at.page.getByRole("heading", { name: "Drop 2 events?" }).waitFor();
    await at.page.getByRole("link", { name: "Cancel" }).click();
    expect(await total()).toBe(before);
    await at.page.locator("input[name=id]").nth(0).check();
    await at.page.getByRole("button", { name: "Drop" }).click();
    await at.page.getByRole("button", { name: "Drop 1 event" }).click();
    await at.page.getByText("1 event dropped.").waitFor();
    expect(await total()).toBe(before - 1);
    await at.page.locator("input[name=all]").check();
    await at.page.getByRole("button", { name: "Drop" }).click();
    await at.page.getByRole("button", { name: `Drop ${before - 1} events` }).click();
    await at.page.getByText(`${before - 1} events dropped.`).waitFor();
    expect(await at.page.locator(".empty").textContent()).toMatch(/No dead letters/);
  },
);

const idle = defineAgent({ name: "Idle", version: "1.0.0", methods: { job_start: { run: () => 1 } } });

/** What an empty page says next: what fills it, or where to go. */
const EMPTY: Readonly<Record<string, RegExp>> = {
  jobs: /No jobs yet\.\s*Start one from an agent's page/,
  "jobs?status=failed": /No job is in this state\.\s*Choose another one above/,
  "cases?status=failed": /No case is in this state\.\s*Choose another one above/,
  "jobs?search=nothing": /No jobs match\.\s*Clear a filter/,
  cases: /No cases yet\.\s*Cases appear when a job opens them/,
  inbox: /Nothing is waiting for you\.\s*Questions that agents ask appear here/,
  failures: /No job failed\.\s*See all jobs/,
  "failures?days=1": /No job failed\.\s*Choose a longer time/,
  files: /No files yet\.\s*Files appear when/,
  models: /No model was called since [\d-]+\.\s*Calls that agents make with job\.model/,
  schedules: /This service has no schedules\.\s*They are set in code, with the option schedules/,
  events: /No event was received yet\.\s*Other systems send them to POST \/events\/\{name\}/,
  "events?name=paid": /No event of this name was received\.\s*Search for another name/,
  "events/waiting": /No job waits for an event\.\s*Jobs that call job\.waitFor appear here/,
  deliveries: /No dead letters\.\s*Events that were given up appear here/,
  "deliveries?state=waiting": /No events are waiting to be sent\.\s*What a receiver has not yet accepted/,
  deleted: /No job was deleted\.\s*What is deleted from the list of jobs appears here/,
  "deleted-cases": /No case was deleted\.\s*What is deleted from the list of cases appears here/,
  access: /No named key\.\s*Everybody who calls .* Make a key that may do less below/,
  audit: /Nothing was recorded yet\.\s*Who signs in, and who changes something, appears here/,
  "audit?who=nobody": /No line matches\.\s*Clear the filters/,
  "find?q=nothing+at+all": /Nothing has this in its name or id\.\s*Search the list of jobs/,
};

chromium.it("an empty list says what fills it, or where to go instead", async () => {
  await using server = await testServer({ agents: [idle] });
  await using at = await open(server);
  for (const [path, words] of Object.entries(EMPTY)) {
    await at.go(path);
    const text = (await at.page.locator(".empty:visible").first().textContent())!;
    expect([path, text.replace(/\s+/g, " ")]).toEqual([path, expect.stringMatching(words)]);
  }
});
