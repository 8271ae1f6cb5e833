import { crc32 } from "node:zlib";
import { describe, expect, it } from "vitest";
import { BaseWriter } from "../../src/core/store/bucket/base-writer.ts";
import { type Chain, OwnerLostError, pad, type Taken } from "../../src/core/store/bucket/chain.ts";
import { MarkerChain } from "../../src/core/store/bucket/marker-chain.ts";
import { type Objects, unseal } from "../../src/core/store/bucket/sealed.ts";
import { SlotChain } from "../../src/core/store/bucket/slot-chain.ts";
import type { PinnedFile } from "../../src/core/store/json/take-snapshot.ts";

/** Every order of the requests of several owners, with the code of the real protocol. */

type Data = Map<string, Buffer>;
type Mutate = (objects: Objects) => Objects;
type Open = (objects: Objects, token: string) => Chain;

/** Checksum of all responses that an owner has had: its state depends on nothing else. */
interface Log {
  history: number;
}

/** Requests of one owner: each waits until the schedule lets it happen, in one moment. */
class Requests {
  readonly waiting: (() => void)[] = [];
  readonly #log: Log;

  constructor(log: Log = { history: 0 }) {
    this.#log = log;
  }

  of(data: Data): Objects {
    const request = <T>(perform: () => T, show: (result: T) => string) =>
      new Promise<T>((resolve) => {
        this.waiting.push(() => {
          const result = perform();
          this.#log.history = crc32(show(result), this.#log.history);
          resolve(result);
        });
      });
    return {
      get: (key) =>
        request(
          () => data.get(key),
          (bytes) => `get ${key} ${bytes?.toString()}`,
        ),
      put: (key, bytes) =>
        request(
          () => void data.set(key, Buffer.from(bytes)),
          () => `put ${key}`,
        ),
      create: (key, bytes) =>
        request(
          () => {
            if (!data.has(key)) data.set(key, Buffer.from(bytes));
            return data.get(key)!.equals(bytes);
          },
          (created) => `create ${key} ${created}`,
        ),
      list: (word) =>
        request(
          () => [...data.keys()].filter((key) => word === undefined || key.startsWith(`${word}:`)),
          (keys) => `list ${keys.join()}`,
        ),
      remove: (key) =>
        request(
          () => void data.delete(key),
          () => `remove ${key}`,
        ),
    };
  }
}

/** One owner's life: takes over, then has groups acknowledged until another one has taken over. */
class Life {
  readonly log: Log = { history: 0 };
  readonly main = new Requests(this.log);
  /** Replaces groups by bases, at the same time. */
  readonly merging = new Requests(this.log);
  seen: string[] | undefined;
  broken: string | undefined;
  readonly acknowledged: string[] = [];

  constructor(data: Data, token: string, model: Model & { groups: number }) {
    void this.#run(data, token, model);
  }

  async #run(data: Data, token: string, { open, mutate, groups, merges }: Model & { groups: number }) {
    const chain = open(mutate(this.main.of(data)), token);
    try {
      const taken = await chain.take();
      this.seen = await readAll(this.main.of(data), taken);
      if (!merges) this.log.history = crc32(`${this.seen.join()} ${chain.slot}`);
      const writer = merges ? this.#writer(mutate(this.merging.of(data)), chain, taken) : undefined;
      for (let group = 1; group <= groups; group++) {
        await chain.append(Buffer.from(`${token}${group}`));
        this.acknowledged.push(`${token}${group}`);
        writer?.note(1);
      }
    } catch (error) {
      if (!(error instanceof OwnerLostError)) this.broken = String(error);
    }
    // How it came to its end makes no difference to others, unless a base is still being written.
    if (!merges) this.log.history = -1;
  }

  #writer(objects: Objects, chain: Chain, taken: Taken): BaseWriter {
    const pin = async () => {
      const content = Buffer.from([...this.seen!, ...this.acknowledged].map((group) => `${group};`).join(""));
      const read = async (into: Buffer, at: number) => content.copy(into, 0, at);
      const file = { read } as unknown as PinnedFile["file"];
      const files = [{ name: "all", size: content.length, file, release: () => {} }];
      return { slot: chain.slot, files };
    };
    return new BaseWriter({ objects, chain, log: silence, pin, taken, isRestored: true, groups: 1 });
  }
}

const silence = { debug() {}, info() {}, warn() {}, error() {} };

/** The groups in a base, and those after it. */
async function readAll(objects: Objects, { base, groups }: Taken): Promise<string[]> {
  let merged = "";
  for (const { key } of base?.files.flatMap(({ parts }) => parts) ?? []) {
    const part = unseal(await objects.get(key));
    if (part === undefined) throw new Error(`${key} is missing`);
    merged += part.content.toString();
  }
  return [...merged.split(";").slice(0, -1), ...groups.map(String)];
}

interface Model {
  readonly open: Open;
  readonly mutate: Mutate;
  /** Whether each group is replaced by a base, and removed. */
  readonly merges?: boolean;
}

/** Lets everything happen that needs no request. */
async function settle(): Promise<void> {
  for (let tick = 0; tick < 24; tick++) await undefined;
}

/** What the next owner would find now. */
async function findAll(data: Data, { open }: Model): Promise<string[]> {
  const requests = new Requests();
  const objects = requests.of(new Map(data));
  const taking = open(objects, "z")
    .take()
    .then((taken) => readAll(objects, taken));
  let found: string[] | undefined;
  taking.then(
    (groups) => {
      found = groups;
    },
    (error: unknown) => {
      found = [String(error)];
    },
  );
  while (found === undefined) {
    await settle();
    requests.waiting.shift()?.();
    await settle();
  }
  return found;
}

/** Says what is wrong if the next owner took over now. */
function judge(lives: readonly Life[], found: readonly string[]): string | undefined {
  for (const { seen, acknowledged, broken } of lives) {
    if (broken !== undefined) return `an owner could not take over: ${broken}`;
    if (seen === undefined || acknowledged.length === 0) continue;
    const history = [...seen, ...acknowledged];
    if (history.some((group, at) => found[at] !== group))
      return `acknowledged ${history.join(" ")}; the next owner finds ${found.join(" ")}`;
  }
  return undefined;
}

/**
 * Tries every order in which owners are interrupted by others at most `interruptions` times; resolves with the number of
 * different states and the first thing that is wrong.
 */
async function explore(
  model: Model,
  owners: readonly { token: string; groups: number }[],
  interruptions = Number.POSITIVE_INFINITY,
): Promise<{ states: number; wrong: string | undefined; acknowledged: number }> {
  const visited = new Set<string>();
  const left: { schedule: number[]; used: number }[] = [{ schedule: [], used: 0 }];
  const finds = new Map<string, string[]>();
  let acknowledged = 0;
  while (left.length > 0) {
    const { schedule, ...rest } = left.pop()!;
    const { used } = rest;
    const data: Data = new Map();
    const lives = owners.map(({ token, groups }) => new Life(data, token, { ...model, groups }));
    const actors = lives.flatMap(({ main, merging }) => [main, merging]);
    await settle();
    for (const actor of schedule) {
      actors[actor]!.waiting.shift()!();
      await settle();
    }
    const path = [...schedule];
    for (;;) {
      const content = [...data].map(([key, bytes]) => `${key} ${crc32(bytes)}`).sort();
      const stored = content.join();
      const state = `${lives.map(({ log }) => log.history).join()} ${crc32(stored)} ${interruptions === Number.POSITIVE_INFINITY ? "" : `${used} ${path.at(-1)}`}`;
      if (visited.has(state)) break;
      visited.add(state);
      const found = finds.get(stored) ?? (await findAll(data, model));
      finds.set(stored, found);
      const wrong = judge(lives, found);
      if (wrong !== undefined) return { states: visited.size, wrong, acknowledged };
      const able = actors.flatMap(({ waiting }, actor) => (waiting.length > 0 ? [actor] : []));
      const last = path.at(-1);
      const goesOn = last !== undefined && able.includes(last);
      const first = goesOn ? last : able[0];
      if (first === undefined) {
        acknowledged = Math.max(acknowledged, ...lives.map((life) => life.acknowledged.length));
        break;
      }
      const next = used + Number(goesOn);
      for (const actor of able)
        if (actor !== first && next <= interruptions) left.push({ schedule: [...path, actor], used: next });
      actors[first]!.waiting.shift()!();
      path.push(first);
      await settle();
    }
  }
  return { states: visited.size, wrong: undefined, acknowledged };
}

const marker: Open = (objects, token) => new MarkerChain(objects, { epoch: token });
const slots: Open = (objects, token) => new SlotChain(objects, { epoch: token });
const asIs: Mutate = (objects) => objects;

const two = [
  { token: "a", groups: 2 },
  { token: "b", groups: 2 },
];
const three = [
  { token: "b", groups: 1 },
  { token: "a", groups: 1 },
  { token: "c", groups: 1 },
];
/** Of three owners: all orders take minutes. */
const INTERRUPTIONS = Number(process.env.SVC_INTERRUPTIONS ?? 2);
/** Of two owners, each of which writes bases at the same time. */
const MERGES = Number(process.env.SVC_INTERRUPTIONS ?? 2);

describe.each([
  ["a marker", marker],
  ["atomic creation", slots],
])("owners that exclude each other by %s", (_, open) => {
  it.each([
    ["two", two, undefined],
    ["three", three, INTERRUPTIONS],
  ])(
    "in every order of the requests of %s, nothing that was acknowledged is lost or forked",
    async (_, owners, most) => {
      const { states, wrong, acknowledged } = await explore({ open, mutate: asIs }, owners, most);
      expect(wrong).toBeUndefined();
      expect(states).toBeGreaterThan(100);
      expect(acknowledged).toBe(owners[0]!.groups);
    },
  );
});

describe.each([
  ["a marker", marker],
  ["atomic creation", slots],
])("owners that exclude each other by %s and replace groups by bases", (_, open) => {
  it("remove nothing that the next one needs", async () => {
    const { states, wrong, acknowledged } = await explore({ open, mutate: asIs, merges: true }, two, MERGES);
    expect(wrong).toBeUndefined();
    expect(states).toBeGreaterThan(1000);
    expect(acknowledged).toBe(2);
  });
});

/** Looks for higher markers before it writes the group, instead of after. */
const checkFirst: Mutate = (objects) => {
  let early: string[] | undefined;
  return {
    ...objects,
    put: async (key, bytes) => {
      if (/^log:\d+\.[^.]+$/.test(key)) early = await objects.list("owners");
      await objects.put(key, bytes);
    },
    list: async (word) => {
      if (word === undefined || early === undefined) return objects.list(word);
      const keys = early;
      early = undefined;
      return keys;
    },
  };
};

/** Lists what there is before it writes its marker, instead of after. */
const listFirst: Mutate = (objects) => {
  let early: string[] | undefined;
  return {
    ...objects,
    put: async (key, bytes) => {
      if (key.startsWith("owners:")) early = await objects.list();
      await objects.put(key, bytes);
    },
    list: async (word) => {
      if (word !== undefined) return objects.list(word);
      const keys = early ?? (await objects.list());
      early = undefined;
      return keys;
    },
  };
};

/** Writes no marker: of several that take over, none knows who was last. */
const silent: Mutate = (objects) => ({
  ...objects,
  put: async (key, bytes) => {
    if (!key.startsWith("owners:")) await objects.put(key, bytes);
  },
});

/** Looks whether there is an object, then writes it. */
const notAtomic: Mutate = (objects) => ({
  ...objects,
  create: async (key, bytes) => {
    if ((await objects.get(key)) !== undefined) return false;
    await objects.put(key, bytes);
    return true;
  },
});

/** Removes what a base replaces immediately, instead of after the next acknowledged group. */
const removeFirst: Mutate = (objects) => ({
  ...objects,
  put: async (key, bytes) => {
    await objects.put(key, bytes);
    const [, slot] = /^base:(\d+)/.exec(key) ?? [];
    if (slot !== undefined) await objects.remove(`log:${slot}`);
  },
});

/** Removes the entries of owners, too. */
const removeOwners: Mutate = (objects) => ({
  ...objects,
  remove: async (key) => {
    await objects.remove(key);
    if (key.startsWith("log:")) await objects.remove(`log:${pad(Number(key.slice(4)) - 1)}`);
  },
});

/** Removes what a base replaces, and then stores the base. */
const baseLast: Mutate = (objects) => ({
  ...objects,
  put: async (key, bytes) => {
    const [, slot] = /^base:(\d+)/.exec(key) ?? [];
    if (slot !== undefined) await objects.remove(`log:${slot}`);
    await objects.put(key, bytes);
  },
});

describe("a protocol that is wrong is caught", () => {
  it.each([
    ["what a base replaces is removed with it", removeFirst],
    ["the base is stored after the removal", baseLast],
    ["entries of owners are removed", removeOwners],
  ])("%s", async (_, mutate) => {
    const { wrong } = await explore({ open: slots, mutate, merges: true }, two, MERGES);
    expect(wrong).toMatch(/acknowledged|take over/);
  });

  it.each([
    ["the check before the write", marker, checkFirst, two],
    ["the list before the marker", marker, listFirst, two],
    ["no marker", marker, silent, three],
    ["a creation in two requests", slots, notAtomic, two],
  ])("%s", async (_, open, mutate, owners) => {
    const { wrong } = await explore({ open, mutate }, owners);
    expect(wrong).toContain("acknowledged");
  });
});

it("a marker whose write takes effect late once more gives the journal to nobody", async () => {
  const data: Data = new Map();
  let late = () => {};
  const objects: Objects = {
    get: async (key) => data.get(key),
    put: async (key, bytes) => {
      data.set(key, Buffer.from(bytes));
      if (/^owner.*old/.test(key) || key === "owner") late = () => void data.set(key, Buffer.from(bytes));
    },
    list: async (word) => [...data.keys()].filter((key) => word === undefined || key.startsWith(`${word}:`)),
    remove: async (key) => void data.delete(key),
  };
  const old = new MarkerChain(objects, { epoch: "old" });
  const next = new MarkerChain(objects, { epoch: "next" });
  await old.take();
  const again = late;
  await next.take();
  await next.append(Buffer.from("1"));

  again();

  await expect(old.append(Buffer.from("2"))).rejects.toThrow(OwnerLostError);
  await next.append(Buffer.from("3"));
  const { groups } = await new MarkerChain(objects, { epoch: "last" }).take();
  expect(groups.map(String)).toEqual(["1", "3"]);
});
