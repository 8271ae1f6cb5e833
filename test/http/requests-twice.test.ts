// @long
// @losses
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { expect, it } from "vitest";
import { limitOf, shareOf } from "../_share.ts";
import { PROCESS_TIME } from "../cli/_svc.ts";
import { type Got, read, type Sent, TwiceDesk } from "./_twice-desk.ts";
import { countsOf, HELD, type Made, ROWS, type Row, requestOf } from "./_twice-rows.ts";

/** When the service is killed: while it works on the request, once it has answered, or once that was read. */
const KILLS = ["at any moment", "before its response is read", "after its response"] as const;
type Kill = (typeof KILLS)[number];

const SHARES = 9;
/** Rows that are tried in one life of the service. */
const TOGETHER = 14;

interface Trial {
  readonly row: Row;
  readonly kill: Kill;
  readonly id: string;
}

const ALL = ROWS.flatMap((row, at) =>
  KILLS.map((kill, point) => ({ row, kill, id: `t${String(at * KILLS.length + point).padStart(3, "0")}` })),
);
const nameOf = ({ row: { of, which }, kill }: Trial) =>
  `${of}${which === undefined ? "" : ` (${which})`}, killed ${kill}`;

it(
  "a documented request that is sent twice around a kill has one effect, and the same response or a refusal",
  async () => {
    const seed = Number(process.env.SVC_SHARE ?? Math.floor(Math.random() * 1e6));
    const random = randomOf(seed);
    const desk = await TwiceDesk.open();
    const trials = shuffled(random, shareOf(ALL, SHARES));
    for (const { row, id } of trials) if (HELD.test(row.of)) await desk.job(id, "change", "awaiting");
    await writeFile(join(desk.service.folder, "changed"), "");
    await desk.service.kill();
    await desk.restart();

    const found: string[] = [];
    const checks: (() => Promise<void>)[] = [];
    for (const group of groupsOf(trials)) checks.push(...(await tryGroup(desk, group, random, found)));
    // What comes too late for the first count is in the second.
    for (const check of checks) await check();

    expect(found, `seed ${seed}`).toEqual([]);
    await desk.service.kill();
  },
  limitOf(PROCESS_TIME, SHARES),
);

it("every operation of the document that is not only read has a row", async () => {
  const desk = await TwiceDesk.open();
  const { paths } = (await desk.get("/openapi.json")) as { paths: Record<string, object> };
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods)
      .map((method) => `${method.toUpperCase()} ${path}`)
      .filter((name) => /^(POST|PUT|PATCH|DELETE) /.test(name)),
  );
  await desk.service.kill();

  const rows = new Set(ROWS.map(({ of }) => of));
  expect(operations.length).toBeGreaterThan(60);
  expect(operations.filter((name) => !rows.has(name))).toEqual([]);
  expect([...rows].filter((name) => !operations.includes(name))).toEqual([]);
});

it("the documentation says which requests work each time that they are sent, and what a kill leaves undone", () => {
  for (const { of, each, undone } of ROWS)
    for (const { page, text } of [each, undone].filter((one) => one !== undefined))
      expect(readFileSync(new URL(`../../docs/${page}`, import.meta.url), "utf8"), of).toMatch(text);
});

/** Sends the requests of a group, kills the service, and sends them again; gives the later count of each. */
async function tryGroup(
  desk: TwiceDesk,
  trials: readonly Trial[],
  random: () => number,
  found: string[],
): Promise<(() => Promise<void>)[]> {
  const made = await Promise.all(
    trials.map(async ({ row, id }) => ((await row.before?.(desk, id)) ?? {}) as Made),
  );
  const requests = trials.map((trial, at) => requestOf(trial.row, trial.id, made[at]!));
  const before = await Promise.all(
    trials.map((trial, at) => countsOf(desk, trial.row, { id: trial.id, made: made[at]! })),
  );
  const first = await sendAndKill(desk, trials[0]!.kill, requests, random);
  await desk.restart();
  const second = await Promise.all(requests.map((request) => desk.send(request)));

  const checks = trials.map((trial, at) => async (): Promise<void> => {
    const wrong = async () =>
      Object.entries(await countsOf(desk, trial.row, { id: trial.id, made: made[at]! })).flatMap(
        ([name, count]) => {
          const grown = count - before[at]![name]!;
          return timesOf(trial.row, name).includes(grown) ? [] : [`${name}: ${grown} times`];
        },
      );
    // An effect may take a moment; that there is no second one is seen in the end.
    await expect
      .poll(wrong)
      .toEqual([])
      .catch(async () => void found.push(`${nameOf(trial)}: ${await wrong()}`));
  });
  for (const [at, trial] of trials.entries())
    found.push(...problemsOf(trial, first[at], second[at]!).map((problem) => `${nameOf(trial)}: ${problem}`));
  await Promise.all(checks.map((check) => check()));
  for (const { row } of trials) await row.after?.(desk);
  return checks.filter((_, at) => !trials[at]!.row.shared);
}

/** How often both requests together may do something. */
function timesOf({ each, undone }: Row, name: string): readonly number[] {
  if (each) return [1, 2];
  return undone?.count === name ? [0, 1] : [1];
}

/** Resolves with the responses that were read. */
async function sendAndKill(
  desk: TwiceDesk,
  kill: Kill,
  requests: readonly Sent[],
  random: () => number,
): Promise<(Got | undefined)[]> {
  const sent = requests.map((request) => desk.begin(request).catch(() => undefined));
  if (kill === "at any moment") await after(random() * 40);
  else {
    const responses = await Promise.all(sent);
    if (kill === "after its response") {
      const all = await Promise.all(responses.map((response) => response && read(response)));
      await desk.service.kill();
      return all;
    }
  }
  await desk.service.kill();
  for (const response of await Promise.all(sent)) await response?.body?.cancel().catch(() => {});
  return requests.map(() => undefined);
}

/** What is wrong with the responses. */
function problemsOf({ row }: Trial, first: Got | undefined, second: Got): string[] {
  const show = ({ status, body }: Got) => `${status} ${JSON.stringify(body)}`;
  const problems: string[] = [];
  if (first && first.status >= 400) problems.push(`the first response is ${show(first)}`);
  const isRefusal = second.status >= 400;
  if (isRefusal && second.status !== row.refused) problems.push(`the second response is ${show(second)}`);
  // As the service says it, or as OpenAI does.
  const { error_type, error } = second.body as { error_type?: unknown; error?: { type?: unknown } };
  if (isRefusal && typeof (error_type ?? error?.type) !== "string")
    problems.push(`the second response does not say why: ${show(second)}`);
  if (!first || problems.length > 0) return problems;
  if (row.refused !== undefined && !isRefusal)
    problems.push(`the second response is no refusal: ${show(second)}`);
  if (isRefusal) return problems;
  if (row.says) {
    expect(second.body).toMatchObject(row.says);
    return problems;
  }
  const isSame =
    first.status === second.status &&
    JSON.stringify(row.same?.(first.body)) === JSON.stringify(row.same?.(second.body));
  if (!isSame) problems.push(`the responses differ: ${show(first)} and ${show(second)}`);
  return problems;
}

/** Trials with the same kill; one of an operation at a time, as some share what they count. */
function groupsOf(trials: readonly Trial[]): Trial[][] {
  const groups: Trial[][] = [];
  for (const trial of trials) {
    const group = groups.find(
      (one) =>
        one.length < TOGETHER &&
        one[0]!.kill === trial.kill &&
        !trial.row.apart &&
        one.every(({ row }) => row !== trial.row && !row.apart),
    );
    if (group) group.push(trial);
    else groups.push([trial]);
  }
  return groups;
}

/** Numbers from 0 to 1 that a seed determines (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffled<T>(random: () => number, all: readonly T[]): T[] {
  return all
    .map((one) => [random(), one] as const)
    .toSorted(([a], [b]) => a - b)
    .map(([, one]) => one);
}
