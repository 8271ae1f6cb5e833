// @long
// @losses
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { archive } from "../../src/cli/deploy/restore.ts";
import { FILES_ROOT } from "../../src/core/store/files/file-chunks.ts";
import { isOfStore } from "../../src/core/store/json/incomplete.ts";
import { toTar } from "../../src/deploy/tar.ts";
import { FILES_SCRIPT, type FilesWork } from "../../src/plugins/platforms/server/restore-files.ts";
import { limitOf, shareOf } from "../_share.ts";
import { writeAll } from "./_fixture.ts";

const TIME = "20260301T093000";
const BESIDE = { "api-key": "key", address: "here" };
const storeWith = (whose: string, segment: number) => ({
  "MANIFEST.json": whose,
  [`Job.${segment}.jsonl`]: whose,
  [`Run.${segment}.jsonl`]: whose,
  [`${FILES_ROOT}/${whose}/content`]: whose,
});
const FORMER = { ...storeWith("former", 1), "damaged/Run.0.jsonl": "former", "shipping/state": "former" };
const BACKUP = storeWith("backup", 2);

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), "svc-restore-files-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** What is in a folder, by path. */
function contentOf(folder: string): Record<string, string> {
  const found = existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }) : [];
  return Object.fromEntries(
    found
      .filter((one) => one.isFile())
      .map((one) => join(one.parentPath, one.name))
      .map((path) => [path.slice(folder.length + 1), readFileSync(path, "utf8")]),
  );
}

/** What a service that starts there finds: nothing while the store is incomplete. */
function storeIn(folder: string): Record<string, string> | undefined {
  if (existsSync(join(folder, "INCOMPLETE"))) return undefined;
  const isOfIt = (path: string) => isOfStore(path.split("/")[0]!) || path.startsWith(`${FILES_ROOT}/`);
  return Object.fromEntries(Object.entries(contentOf(folder)).filter(([path]) => isOfIt(path)));
}

/** Runs a function of the script; killed before its command of this number, counted from 1. */
function run(
  folder: string,
  work: FilesWork,
  { killAt = 0, input }: { killAt?: number; input?: Buffer } = {},
) {
  const trap = `n=0; set -T; trap 'n=$((n+1)); [ $n != ${killAt} ] || kill -9 $$' DEBUG`;
  // The disk is not what is tested: its caches stay.
  const script = `sync() { :; }\n${killAt === 0 ? "" : trap}\n${FILES_SCRIPT}`;
  const { status, signal, stdout, stderr } = spawnSync("bash", ["-c", script, "svc", folder, work, TIME], {
    encoding: "utf8",
    input,
  });
  if (killAt === 0 && status !== 0) throw new Error(`${work} ended with ${status}: ${stderr}`);
  return { isKilled: signal === "SIGKILL", printed: stdout.trim() };
}

/** A volume with the former store, and a restore that has come to this point. */
async function volumeAt(...works: readonly FilesWork[]): Promise<string> {
  const [folder, from] = [temporary(), temporary()];
  writeAll(folder, { ...FORMER, ...BESIDE });
  writeAll(from, BACKUP);
  const chunks: Uint8Array[] = [];
  for await (const chunk of toTar(await archive(from))) chunks.push(chunk);
  const input = Buffer.concat(chunks);
  for (const work of works) run(folder, work, work === "fill" ? { input } : {});
  return folder;
}

/** Each state in which a kill leaves a volume in which a function runs, until it is not killed. */
function* killed(start: string, work: FilesWork): Generator<{ folder: string; killAt: number }> {
  for (let killAt = 1; ; killAt++) {
    const folder = temporary();
    rmSync(folder, { recursive: true });
    cpSync(start, folder, { recursive: true });
    if (!run(folder, work, { killAt }).isKilled) {
      expect(killAt).toBeGreaterThan(3);
      return;
    }
    yield { folder, killAt };
  }
}

/** What a folder with a restore that was completed, or undone, has beside the store. */
const others = (folder: string) =>
  readdirSync(folder).filter(
    (name) => !isOfStore(name) && name !== FILES_ROOT && !Object.hasOwn(BESIDE, name),
  );

/** What is wrong once an interrupted restore was resumed and, where nobody has seen the service healthy, undone. */
function problemsOf(folder: string): string[] {
  const { printed } = run(folder, "resume");
  const left = others(folder).filter((name) => !/^(former|unhealthy|replaced)-/.test(name));
  const problems = left.map((name) => `${name} is left`);
  const expectStore = (what: string, expected: object) => {
    const found = storeIn(folder);
    if (JSON.stringify(sorted(found)) !== JSON.stringify(sorted(expected)))
      problems.push(`${what}: ${JSON.stringify(found)}`);
  };
  if (printed === "") {
    expectStore("not undone", FORMER);
    return problems;
  }
  expectStore("resumed", BACKUP);
  if (printed !== TIME) problems.push(`printed ${printed}`);
  run(folder, "give_back");
  expectStore("undone", FORMER);
  const aside = contentOf(join(folder, `unhealthy-${TIME}`));
  if (JSON.stringify(sorted(aside)) !== JSON.stringify(sorted(BACKUP)))
    problems.push(`aside: ${JSON.stringify(aside)}`);
  return problems;
}

function sorted(map: object | undefined): unknown {
  return map && Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Each run kills a share of the runs that resume. */
const SHARES = 8;
const chosen = shareOf([...Array(SHARES).keys()], SHARES);
const isChosen = (killAt: number) => chosen.includes(killAt % SHARES);

const isWhole = (folder: string) => {
  const found = JSON.stringify(sorted(storeIn(folder)));
  return [undefined, FORMER, BACKUP].some((one) => JSON.stringify(sorted(one)) === found);
};

it.each([
  ["exchange", ["fill"]],
  ["give_back", ["fill", "exchange"]],
] as const)(
  "a restore that is killed at any command of %s leaves no store that is half of each, and loses nothing",
  async (work, before) => {
    const start = await volumeAt(...before);
    const failures: string[] = [];

    for (const { folder, killAt } of killed(start, work)) {
      if (!isWhole(folder)) failures.push(`${killAt}: ${JSON.stringify(storeIn(folder))}`);
      // What resumes it can be killed as well.
      for (const again of isChosen(killAt) ? killed(folder, "resume") : []) {
        const where = `${killAt}, then ${again.killAt}`;
        if (!isWhole(again.folder)) failures.push(`${where}: ${JSON.stringify(storeIn(again.folder))}`);
        for (const problem of problemsOf(again.folder)) failures.push(`${where}: ${problem}`);
        if (failures.length > 5) break;
      }
      for (const problem of problemsOf(folder)) failures.push(`${killAt}: ${problem}`);
    }

    expect(failures).toEqual([]);
  },
  limitOf(240_000, SHARES),
);

it("a restore that is kept has the former files in a folder of its time, also where that is killed", async () => {
  const start = await volumeAt("fill", "exchange");
  mkdirSync(join(start, `unhealthy-${TIME}`));

  for (const { folder } of killed(start, "keep")) {
    if (run(folder, "resume").printed !== "") run(folder, "keep");
    expect(storeIn(folder)).toEqual(BACKUP);
    expect(others(folder)).toEqual([`replaced-${TIME}`]);
    expect(contentOf(join(folder, `replaced-${TIME}`))).toEqual(FORMER);
  }
});

it("a backup that arrived in part is not put in the place of the former files", async () => {
  const folder = await volumeAt();

  const sent = spawnSync("bash", ["-c", FILES_SCRIPT, "svc", folder, "fill", TIME], { input: "half of it" });
  const exchanged = spawnSync("bash", ["-c", FILES_SCRIPT, "svc", folder, "exchange", TIME]);

  expect([sent.status, exchanged.status]).not.toContain(0);
  expect(storeIn(folder)).toEqual(FORMER);
  expect(others(folder)).toEqual([]);
});

it("a store that was incomplete before the restore is so again after it was undone", async () => {
  const start = await volumeAt("fill");
  writeAll(start, { INCOMPLETE: "a move" });
  rmSync(join(start, "MANIFEST.json"));

  const expectAsBefore = (folder: string) => {
    if (run(folder, "resume").printed !== "") run(folder, "give_back");
    expect(readFileSync(join(folder, "INCOMPLETE"), "utf8")).toBe("a move");
    expect(existsSync(join(folder, "Job.1.jsonl"))).toBe(true);
  };

  for (const { folder } of killed(start, "exchange")) expectAsBefore(folder);
  run(start, "exchange");
  for (const { folder } of killed(start, "give_back")) expectAsBefore(folder);
});
