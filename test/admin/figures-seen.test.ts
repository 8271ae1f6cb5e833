// @long
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROUTER } from "agent-control-service/plugin";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Desk, fillDesk } from "../../bench/desk/seed.ts";
import { navigationLines } from "./_desk-dashboard.ts";
import { LISTED } from "./_desk-page.ts";
import { DESK_PAGES } from "./_desk-pages.ts";
import { DESK_SUMS } from "./_desk-sums.ts";
import {
  type Case,
  DESK_JOBS,
  type Job,
  keyOf,
  READERS,
  type Reader,
  readAll,
  readJson,
  readTruths,
  seesWholeAgents,
  type Truth,
} from "./_desk-truth.ts";
import { numberedLines } from "./_lines.ts";

let folder: string;
let desk: Desk;
let truthOf: (reader: Reader) => Truth;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "svc-figures-seen-"));
  desk = await fillDesk(folder, DESK_JOBS);
  desk.stopClock();
  truthOf = await readTruths(desk);
}, 1_200_000);
afterAll(async () => {
  await desk?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/** Pages without figures of what is stored, or whose figures other tests have. */
const OTHERS: Readonly<Record<string, readonly string[]>> = {
  "forms, and what asks before something is done": [
    ...["sign-in", "sign-in/person", "sign-in/back", "sign-in/program", "help", "answer/{token}"],
    ...[
      "agents/{slug}/start",
      "jobs/{id}/fork",
      "jobs/{id}/status",
      "cases/{id}/status",
      "cases/{id}/delete",
    ],
    ...["stop", "retry", "resume", "continue", "restart", "delete", "revoke-tokens"].map(
      (act) => `jobs/{id}/${act}`,
    ),
    ...["run", "pause", "resume"].map((act) => `schedules/{id}/${act}`),
    ...["deleted", "deleted-cases"].flatMap((kind) => [`${kind}/{id}/restore`, `${kind}/{id}/erase`]),
    ...["access/{id}/remove", "access/people/{id}/remove", "access/people/{id}/restore"],
  ],
  "about people and keys": ["access", "sessions", "audit"],
  "contents, and what people and agents have said": [
    ...["jobs/{id}/files/{sha256}", "jobs/{id}/files/{sha256}/view", "assets/{hash}/{file}", "x/{path}"],
    ...["jobs/{id}/chat", "agents/{slug}/chat", "console"],
  ],
  "shows what the preview of an action says, which is one of the sums": ["bulk/{id}"],
  "shows two jobs beside each other: test/admin/compared.test.ts": ["jobs/{id}/compare"],
};

it("has a row for each page, or a reason for none", () => {
  const paths = DESK_PAGES.map(({ path }) => path.split("?")[0]!);
  const others = Object.values(OTHERS).flatMap((some) => some.map((path) => `/admin/${path}`));
  const unchecked = desk.server.service
    .get(ROUTER)
    .routes.filter(({ method, path }) => method === "GET" && /^\/admin(?!\/api\/)/.test(path))
    .map(({ path }) => path)
    .filter((path) => !paths.some((one) => new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`).test(one)));
  expect(unchecked.filter((path) => !others.includes(path))).toEqual([]);
});

/** Where the link of a pager leads; `undefined` where it has none. */
function leadsTo(html: string, rel: "prev" | "next" | "first"): string | undefined {
  const [link] = new RegExp(`<a [^>]*rel="${rel}"[^>]*>`).exec(html) ?? [];
  if (link === undefined || link.includes('aria-disabled="true"')) return undefined;
  return / href="([^"]*)"/.exec(link)?.[1]?.replaceAll("&amp;", "&");
}

describe.each(READERS)("each figure that %s sees", (reader) => {
  it("is about something, and not about all", () => {
    const [own, all] = [truthOf(reader), truthOf("owner")];
    for (const what of ["cases", "questions"] as const) {
      expect(own[what].length).toBeGreaterThan(0);
      if (reader !== "owner") expect(own[what].length).toBeLessThan(all[what].length);
    }
  });

  it.each(DESK_PAGES)(
    "on $path is computed from the owner's export",
    async ({ path, refuses, lines, ...read }) => {
      const truth = truthOf(reader);
      const open = (address: string) =>
        desk.server.request(address, { key: keyOf(desk, reader), headers: { accept: "text/html" } });
      const status = refuses?.(truth) ?? 200;
      if (status !== 200) {
        expect((await open(path)).status).toBe(status);
        return;
      }
      const { passing, within = ["<main"], without, entries, size = LISTED, turns = 2 } = read;
      const numbersOf = (html: string) =>
        within
          .flatMap((part) => numberedLines(html, { within: part, ...(without && { without }) }))
          .map((line) =>
            passing ? line.replace(passing, (found) => (line.startsWith(found) ? "\0" : "")) : line,
          )
          .filter((line) => !line.startsWith("\0"));
      const last = Math.ceil(Math.max(1, entries?.(truth) ?? 1) / size) - 1;
      for (let [turn, address] = [0, path]; ; turn++) {
        const response = await open(address);
        expect([address, response.status]).toEqual([address, 200]);
        const html = await response.text();
        expect(numbersOf(html)).toEqual(lines(truth, turn));
        expect(numberedLines(html, { within: "<nav" })).toEqual(navigationLines(truth));
        const back = leadsTo(html, "prev") ?? leadsTo(html, "first");
        expect([turn, back !== undefined]).toEqual([turn, turn > 0]);
        // The page before the second one is the first one.
        if (turn === 1) expect(numbersOf(await (await open(back!)).text())).toEqual(lines(truth, 0));
        const next = leadsTo(html, "next");
        expect([turn, next !== undefined]).toEqual([turn, turn < last]);
        if (turn === last || turn + 1 >= turns) return;
        address = next!;
      }
    },
    60_000,
  );
});

describe.each(READERS)("what routes say to %s", (reader) => {
  it.each(DESK_SUMS)("is computed from the owner's export: $what", async ({ said, refuses, is }) => {
    const truth = truthOf(reader);
    if (refuses?.(truth)) return;
    expect(await said(desk, reader)).toEqual(is(truth));
  });

  it("in exports is what the owner's have of it", async () => {
    const truth = truthOf(reader);
    const [jobs, cases] = await Promise.all([
      readJson<Job[]>(desk, "/admin/api/jobs/export?format=json", reader),
      readJson<Case[]>(desk, "/admin/api/cases/export?format=json", reader),
    ]);
    expect(jobs).toEqual(truth.jobs);
    expect(cases).toEqual(truth.cases);
    for (const [kind, { length }] of Object.entries({ jobs, cases })) {
      const csv = await desk.server.request(`/admin/api/${kind}/export`, { key: keyOf(desk, reader) });
      // Without the names of the columns and what is behind the last line.
      expect([kind, (await csv.text()).split("\r\n").length - 2]).toEqual([kind, length]);
    }
    const models = await desk.server.request("/admin/api/models/export?format=json&days=366", {
      key: keyOf(desk, reader),
    });
    if (seesWholeAgents(reader)) expect(await models.json()).toEqual(truth.uses);
    else expect(models.status).toBe(403);
    expect(await readAll(desk, "/files", reader)).toEqual(truth.files);
  });
});
