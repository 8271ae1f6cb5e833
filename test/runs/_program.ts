import { setImmediate as soon } from "node:timers/promises";
import type { CaseHandle, JobHandle, JobStartContext } from "agent-control-service";

type Handle = JobHandle | CaseHandle;

/** A program that a handler runs, made by chance. */
export type Node =
  | {
      readonly kind: "step";
      readonly name: string;
      readonly ticks: number;
      readonly failures: number;
      readonly reads: boolean;
    }
  | { readonly kind: "sleep"; readonly milliseconds: number }
  | { readonly kind: "wait"; readonly ticks: number }
  | { readonly kind: "update"; readonly name: string }
  | { readonly kind: "read" }
  | { readonly kind: "child"; readonly key: string; readonly ticks: number }
  | { readonly kind: "event"; readonly key: string }
  | { readonly kind: "ask"; readonly name: string }
  | { readonly kind: "case"; readonly id: string; readonly body: Node }
  | { readonly kind: "chain" | "all" | "race" | "any" | "settled"; readonly parts: readonly Node[] }
  | { readonly kind: "pump"; readonly workers: number; readonly parts: readonly Node[] }
  | { readonly kind: "left"; readonly body: Node };

/** A source of chance that can be repeated. */
export function randomOf(seed: number): (most: number) => number {
  let state = (seed + 1) * 0x9e3779b9;
  return (most) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % most;
  };
}

/** Makes a program of some ten calls. */
export function makeProgram(random: (most: number) => number): Node {
  let left = 3 + random(7);
  let names = 0;
  let waits = random(3) === 0;
  const nameOf = () => (random(3) === 0 ? `own ${++names}` : ["a", "b"][random(2)]!);
  const leaf = (inCase: boolean): Node => {
    left--;
    const chance = random(20);
    if (chance < 2) return { kind: "sleep", milliseconds: random(3) };
    if (chance < 5 && waits) return { kind: "wait", ticks: 1 + random(6) };
    if (chance < 7 && inCase) return { kind: "update", name: nameOf() };
    if (chance < 8 && !inCase) return { kind: "child", key: `child ${++names}`, ticks: random(4) };
    if (chance < 9 && !inCase) return { kind: "event", key: `event ${++names}` };
    if (chance < 11) return { kind: "read" };
    const failures = random(8) === 0 ? 1 + random(2) : 0;
    return { kind: "step", name: nameOf(), ticks: random(6), failures, reads: random(4) === 0 };
  };
  const parts = (inCase: boolean, depth: number, least: number): Node[] =>
    Array.from({ length: least + random(3) }, () => node(inCase, depth - 1));
  /** Parts that wait only for recorded calls: who takes what, and who wins, must not be random. */
  const certain = (inCase: boolean, depth: number, least: number): Node[] => {
    const before = waits;
    waits = false;
    const made = parts(inCase, depth, least);
    waits = before;
    return made;
  };
  const node = (inCase: boolean, depth: number): Node => {
    if (left <= 0 || depth === 0) return leaf(inCase);
    const chance = random(20);
    if (chance < 5) return leaf(inCase);
    if (chance < 9) return { kind: "chain", parts: parts(inCase, depth, 2) };
    if (chance < 13) return { kind: "all", parts: parts(inCase, depth, 2) };
    if (chance < 15) return { kind: "race", parts: certain(inCase, depth, 2) };
    if (chance < 16) {
      if (random(2)) return { kind: "any", parts: certain(inCase, depth, 2) };
      return { kind: "settled", parts: parts(inCase, depth, 2) };
    }
    if (chance < 17) return { kind: "pump", workers: 2, parts: certain(inCase, depth, 3) };
    if (chance < 18) return { kind: "left", body: leaf(inCase) };
    const asks: Node[] = random(3) === 0 ? [{ kind: "ask", name: `What ${++names}?` }] : [];
    const body: Node = { kind: "chain", parts: [node(true, depth - 1), ...asks, node(true, depth - 1)] };
    return { kind: "case", id: `case-${++names}`, body };
  };
  const parted = [node(false, 4), node(false, 4)];
  // Whether it ends after a wait of its own before what it left behind has ended is up to chance.
  waits = false;
  return { kind: "chain", parts: [...parted, leaf(false)] };
}

/** What one life of a program saw and did. */
export interface Witness {
  /** What the handler was given, in order. */
  readonly seen: string[];
  /** Steps whose function was called. */
  readonly did: string[];
  /** Results that belong to another call. */
  readonly wrong: string[];
  /** Steps that have failed, in this life or one before. */
  readonly failed: Set<string>;
  readonly isDead: () => boolean;
  /** How many times as long its sleeps take. */
  readonly pace?: number;
}

/** Runs a program. Each result tells which call it belongs to, so that one given to another is found. */
export async function runProgram(
  program: Node,
  { job }: JobStartContext,
  { seen, did, wrong, failed, isDead, pace = 1 }: Witness,
): Promise<unknown> {
  const ticks = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) await soon();
  };
  const given = (path: string, value: unknown, expected: unknown): unknown => {
    if (isDead()) return new Promise(() => {});
    seen.push(`${path} ${JSON.stringify(value)}`);
    if (value !== expected) wrong.push(`${path} was given ${JSON.stringify(value)}`);
    return value;
  };
  const run = async (node: Node, handle: Handle, path: string): Promise<unknown> => {
    switch (node.kind) {
      case "wait":
        return ticks(node.ticks);
      case "sleep":
        await job.sleep(`${node.milliseconds * pace}ms`);
        return given(path, "slept", "slept");
      case "update":
        await (handle as CaseHandle).update({ name: node.name, payload: { path } });
        return given(path, "updated", "updated");
      case "read": {
        // It differs from moment to moment, and from life to life.
        const { updated_at, status, total_cost, ...rest } = await handle.read();
        const what = "updates" in rest ? rest.updates.length : rest.case_ids.length;
        const read = [updated_at, status, total_cost, what].join();
        given(path, read, read);
        return "read";
      }
      case "child": {
        const child = await job.start<string>("child", { path, ticks: node.ticks }, { key: node.key });
        return given(path, await child.result(), `child ${path}`);
      }
      case "event": {
        const { data } = await job.waitFor<{ of: string }>("news", {
          key: node.key,
          where: { of: node.key },
        });
        return given(path, data.of, node.key);
      }
      case "ask": {
        const fields = [{ name: "text", required: true }];
        const { text } = await (handle as CaseHandle).ask({ question: node.name, fields });
        return given(path, text, `answer to ${node.name}`);
      }
      case "step": {
        const fn = async () => {
          if (isDead()) return new Promise<string>(() => {});
          did.push(path);
          await ticks(node.ticks);
          if (node.reads) await handle.read();
          const fails = node.failures > 1 || (node.failures === 1 && !failed.has(path));
          failed.add(path);
          if (fails) throw new Error(`no ${path}`);
          return path;
        };
        // One that fails once succeeds in the end; one that fails twice does not.
        const options = { retries: node.failures > 0 ? 1 : 0, backoff: { initial: "1ms" } } as const;
        const value = await handle.step(node.name, fn, options).catch((error: Error) => {
          if (error.name === "StepFailedError") given(path, error.message, `no ${path}`);
          throw error;
        });
        return given(path, value, path);
      }
      case "case": {
        const item = await job.openCase({ id: node.id, name: node.id });
        if (item.ref !== node.id) wrong.push(`${path} was given case ${item.ref}`);
        const value = await run(node.body, item, `${path}/${node.id}`);
        await item.close({ value: String(value) });
        return value;
      }
      case "chain": {
        const values: unknown[] = [];
        for (const [n, part] of node.parts.entries()) {
          values.push(await run(part, handle, `${path}.${n}`).catch((error: Error) => caught(error)));
        }
        return values;
      }
      case "pump": {
        const values: unknown[] = [];
        const left = [...node.parts.entries()];
        const work = async () => {
          for (let next = left.shift(); next; next = left.shift())
            values.push(
              await run(next[1], handle, `${path}.${next[0]}`).catch((error: Error) => caught(error)),
            );
        };
        await Promise.all(Array.from({ length: node.workers }, work));
        return values;
      }
      case "left":
        void run(node.body, handle, `${path}.left`).catch(() => {});
        return "left";
      default: {
        const parts = node.parts.map((part, n) => run(part, handle, `${path}.${n}`));
        if (node.kind === "all") return Promise.all(parts);
        if (node.kind === "settled") return (await Promise.allSettled(parts)).map(({ status }) => status);
        const winner = await (node.kind === "race" ? Promise.race(parts) : Promise.any(parts));
        // What comes next depends on who has won.
        const word = JSON.stringify(winner) ?? "nothing";
        return given(`${path} after`, await handle.step(`after ${node.kind}`, () => word), word);
      }
    }
  };
  const value = await run(program, job, "");
  return JSON.parse(JSON.stringify(value ?? null));
}

/** A failure of a step is a value as others are; the end of the run is not. */
function caught(error: Error): string {
  if (error.name === "StepFailedError" || error.name === "AggregateError") return `failed ${error.message}`;
  throw error;
}
