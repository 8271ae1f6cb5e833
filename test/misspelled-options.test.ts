import { defineAgent, type ServerOptions } from "agent-control-service";
import type * as ai from "agent-control-service/ai";
import type { Plugin } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { entriesOf, loadEntry } from "./_entries.ts";
import { greeter } from "./_setup.ts";

type Call = (fn: never) => unknown;

/** A call with one misspelled option, and the name that was meant; or why there is no option to misspell. */
type Row = readonly [call: Call, misspelled: string, meant: string] | string;

/** Any value: an option of any type is misspelled. */
const ONE = 1 as never;
const platform = { name: "p", defaultRegion: "r", flags: {}, connect: () => ({}) };
const route = {
  method: "GET",
  path: "/x",
  auth: "none",
  needs: "nothing",
  summary: "x",
  tag: "x",
  responses: {},
  handler() {},
};
const run = () => "done";
const agent = { name: "A", version: "1.0.0", methods: { job_start: { run } } };

const serve = (options: Partial<ServerOptions>) => testServer({ agents: [greeter], ...options });
const withPlugin = (plugin: (options: never) => Plugin, options: object) =>
  serve({ plugins: plugin(options as never) });

/** What a handler throws. */
async function inJob(work: (job: never) => unknown): Promise<never> {
  const worker = defineAgent({
    name: "Worker",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          try {
            return await work(job as never);
          } catch (error) {
            return { said: (error as Error).message };
          }
        },
      },
    },
  });
  await using server = await testServer({ agents: [worker] });
  const { result } = await server.run("worker");
  throw new Error((result as { said?: string }).said ?? "nothing was refused");
}

const of = (misspelled: string) => ({ [misspelled]: ONE }) as never;
/** A function that gets only options. */
const given =
  (base: object, misspelled: string): Call =>
  (fn: (options: never) => unknown) =>
    fn({ ...base, ...(of(misspelled) as object) } as never);
const plugin =
  (misspelled: string, base: object = {}): Call =>
  (fn: (options: never) => Plugin) =>
    withPlugin(fn, { ...base, ...(of(misspelled) as object) });

const model = {
  specificationVersion: "v2",
  provider: "x",
  modelId: "m",
  doGenerate: async () => ({}),
  doStream: async () => ({}),
};
const tool = { description: "x", execute: run };

const TABLE: Readonly<Record<string, Row>> = {
  // "."
  admin: [plugin("titel"), "titel", "title"],
  createServer: [given({ agents: [greeter] }, "publicUrll"), "publicUrll", "publicUrl"],
  defineAgent: [
    (fn: (options: object) => typeof greeter) => serve({ agents: [fn({ ...agent, descripton: "x" })] }),
    "descripton",
    "description",
  ],
  defineChat: [given({ name: "A", version: "1.0.0", reply: run }, "idel"), "idel", "idle"],
  docs: [plugin("contacts"), "contacts", "contact"],
  events: [plugin("timout"), "timout", "timeout"],
  proxyAuth: [given({}, "audiense"), "audiense", "audience"],
  oidc: [given({}, "isuer"), "isuer", "issuer"],
  file: [given({}, "maxSiz"), "maxSiz", "maxSize"],
  isDuration: "checks a value",
  prices: [
    (fn: (table: object) => unknown) => fn({ m: { input: 1, output: 2, cachd: 1 } }),
    "cachd",
    "cached",
  ],
  telemetry: [plugin("metricInterval"), "metricInterval", "metricsInterval"],
  webhooks: [plugin("allowPrivat", { webhooks: [] }), "allowPrivat", "allowPrivate"],
  // "./plugin"
  createToken: "has a name",
  defineCommand: [given({ usage: "x", summary: "x", run }, "flag"), "flag", "flags"],
  definePlugin: [given({ name: "x" }, "dependOn"), "dependOn", "dependsOn"],
  defineRoute: [given(route, "bodyLimits"), "bodyLimits", "bodyLimit"],
  html: "is a template",
  // "./store"
  storeDriver: [given({}, "table"), "table", "tables"],
  // "./storage"
  azureDriver: [given({ account: "a", container: "c" }, "prefx"), "prefx", "prefix"],
  fileDriver: [given({ folder: "/x" }, "foldr"), "foldr", "folder"],
  gcsDriver: [given({ bucket: "b" }, "prefx"), "prefx", "prefix"],
  s3Driver: [given({ bucket: "b" }, "regoin"), "regoin", "region"],
  storageFromUrl: [
    (fn: (url: string, options: never) => unknown) => fn("gs://bucket", of("patince")),
    "patince",
    "patience",
  ],
  // "./deploy"
  createCommand: "has arguments of a program",
  createReleases: "has methods of a platform, which may have members of their own",
  createSecretStore: "has methods of a platform, which may have members of their own",
  definePlatform: [given(platform, "proxis"), "proxis", "proxies"],
  specChanges: "compares releases",
  // "./testing"
  crashTest: [
    (fn: (agent: unknown, options: never) => unknown) => fn(greeter, of("feilds")),
    "feilds",
    "fields",
  ],
  createDeployTools: [given({ cwd: "/" }, "onRepot"), "onRepot", "onReport"],
  createMemoryStore: "is called by a service",
  modelServer: [given({}, "replay"), "replay", "reply"],
  platformContract: [
    (fn: (name: string, options: never) => unknown) => fn("x", of("setpu")),
    "setpu",
    "setup",
  ],
  storeContract: [given({}, "persistant"), "persistant", "persistent"],
  testServer: [given({ agents: [greeter] }, "publicUrll"), "publicUrll", "publicUrl"],
  // "./ai"
  durable: [
    (fn: typeof ai.durable) =>
      inJob((job) => (fn(model, job, of("retrys")) as { doGenerate: Call }).doGenerate({} as never)),
    "retrys",
    "retries",
  ],
  durableNode: [(fn: typeof ai.durableNode) => fn("x", run as never, of("retrys")), "retrys", "retries"],
  durableTools: [
    (fn: typeof ai.durableTools) => fn({} as never, { x: { ...tool, aproval: true } } as never),
    "aproval",
    "approval",
  ],
  runGraph: [
    (fn: typeof ai.runGraph) => fn({} as never, {} as never, {}, of("questoin")),
    "questoin",
    "question",
  ],
  // "./mcp", "./a2a", "./agui", "./postgres"
  mcp: [plugin("agnets"), "agnets", "agents"],
  mcpTools: [
    (fn: (url: string, options: never) => unknown) => fn("http://x", of("headrs")),
    "headrs",
    "headers",
  ],
  a2a: [plugin("publicCard"), "publicCard", "publicCards"],
  agUi: [plugin("paht"), "paht", "path"],
  postgres: [given({ url: "postgres://x/x" }, "conections"), "conections", "connections"],
  // "./client", "./client/react"
  client: [
    (fn: (url: string, key: string, options: never) => unknown) => fn("http://x", "k", of("patince")),
    "patince",
    "patience",
  ],
  useChat: "has a job",
  useJob: "has a job",
};

/** Functions of the package, except for classes. */
async function functions(): Promise<Map<string, unknown>> {
  const modules = await Promise.all(entriesOf().map(loadEntry));
  return new Map(
    modules
      .flatMap((module) => Object.entries(module))
      .filter(([, value]) => typeof value === "function" && !/^class\b/.test(String(value))),
  );
}

describe("a misspelled option", () => {
  it("has a row in the table for each function that the package exports", async () => {
    const exported = await functions();

    expect(Object.keys(TABLE).sort()).toEqual([...exported.keys()].sort());
  });

  const rows = Object.entries(TABLE).filter((entry): entry is [string, Exclude<Row, string>] =>
    Array.isArray(entry[1]),
  );

  it.each(rows)("of %s is refused by the name that was meant", async (name, [call, misspelled, meant]) => {
    const fn = (await functions()).get(name);

    const failure = await Promise.resolve()
      .then(() => call(fn as never))
      .then(
        () => "it was accepted",
        (error: Error) => error.message,
      );

    expect(failure).toContain(misspelled);
    expect(failure).toMatch(new RegExp(`did you mean ${meant}\\?|only .*\\b${meant}\\b|${meant}:`));
  });
});
