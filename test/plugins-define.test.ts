import { defineAgent } from "agent-control-service";
import {
  createToken,
  definePlugin,
  type Plugin,
  type PluginContext,
  PluginError,
  type PluginInput,
  RUNNER,
} from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { type } from "arktype";
import * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import * as z from "zod";
import { checkPlugins } from "../src/core/service/check-plugins.ts";
import { greeter } from "./_setup.ts";
import { startJob, until } from "./runs/_jobs.ts";

declare module "agent-control-service/plugin" {
  interface ServiceHooks {
    "mailer:sent": { to: string };
    "other:told": { what: string };
  }
}

const serve = (...plugins: PluginInput[]) => testServer({ agents: [greeter], plugins });

describe("a plugin's options", () => {
  const seen: unknown[] = [];
  const base = {
    name: "mailer",
    setup: ({ options }: PluginContext) => void seen.push(options),
  };
  const libraries: [string, (options: never) => Plugin][] = [
    [
      "valibot",
      definePlugin({
        ...base,
        options: v.object({ from: v.string(), port: v.optional(v.number(), 25) }),
      }),
    ],
    [
      "valibot, asynchronous",
      definePlugin({
        ...base,
        options: v.objectAsync({
          from: v.pipeAsync(
            v.string(),
            v.checkAsync(async () => true),
          ),
          port: v.optional(v.number(), 25),
        }),
      }),
    ],
    ["zod", definePlugin({ ...base, options: z.object({ from: z.string(), port: z.number().default(25) }) })],
    ["ArkType", definePlugin({ ...base, options: type({ from: "string", port: "number = 25" }) })],
  ];

  it.each(libraries)("of %s are checked, with their defaults", async (_, plugin) => {
    seen.length = 0;
    await using _server = await serve(plugin({ from: "a@example.com" } as never));

    expect(seen).toEqual([{ from: "a@example.com", port: 25 }]);
  });

  it.each(libraries)("of %s that are invalid are all named, and no value is repeated", async (_, plugin) => {
    const failure = await serve(plugin({ port: "hunter2-secret" } as never)).catch((error: unknown) => error);

    expect(failure).toBeInstanceOf(PluginError);
    const { message } = failure as Error;
    expect(message).toMatch(
      /^Plugin "mailer" cannot use its options: option \w+ .*; option \w+ .*\. Change its options/,
    );
    expect(message).toContain("option from is required");
    expect(message).toContain("option port must be a number");
    expect(message).not.toContain("hunter2");
  });

  const nested: [string, (options: never) => Plugin][] = [
    [
      "valibot",
      definePlugin({
        ...base,
        options: v.object({
          from: v.string(),
          retry: v.optional(v.object({ tries: v.optional(v.number()) })),
        }),
      }),
    ],
    [
      "zod",
      definePlugin({
        ...base,
        options: z.object({ from: z.string(), retry: z.object({ tries: z.number().optional() }).optional() }),
      }),
    ],
    [
      "zod, strict",
      definePlugin({
        ...base,
        options: z.strictObject({
          from: z.string(),
          retry: z.strictObject({ tries: z.number().optional() }).optional(),
        }),
      }),
    ],
    [
      "zod, of several forms",
      definePlugin({
        ...base,
        options: z.union([
          z.object({ to: z.string() }),
          z.object({ from: z.string(), retry: z.object({ tries: z.number().optional() }).optional() }),
        ]),
      }),
    ],
    [
      "ArkType",
      definePlugin({ ...base, options: type({ from: "string", "retry?": { "tries?": "number" } }) }),
    ],
    [
      "ArkType, strict",
      definePlugin({
        ...base,
        options: type({ "+": "reject", from: "string", "retry?": { "+": "reject", "tries?": "number" } }),
      }),
    ],
  ];

  it.each(nested)("of %s that are not known are refused by the names that were meant", async (_, plugin) => {
    const given = { from: "a@example.com", form: "b", retry: { trys: 3 } };

    await expect(serve(plugin(given as never))).rejects.toThrow(
      /^Plugin "mailer" cannot use its options: option form is not known: did you mean from\?; option retry.trys is not known: did you mean tries\?\. Change its options/,
    );
    await using server = await serve(plugin({ from: "a@example.com", retry: { tries: 3 } } as never));
    expect(server.url).toMatch(/^http/);
  });

  it.each<[string, (options: never) => Plugin]>([
    ["valibot", definePlugin({ ...base, options: v.looseObject({ from: v.string() }) })],
    ["zod", definePlugin({ ...base, options: z.looseObject({ from: z.string() }) })],
    ["ArkType", definePlugin({ ...base, options: type({ from: "string", "[string]": "unknown" }) })],
  ])("of a loose schema of %s may have further names", async (_, plugin) => {
    seen.length = 0;
    await using _server = await serve(plugin({ from: "a", form: { deep: 1 } } as never));

    expect(seen).toEqual([{ from: "a", form: { deep: 1 } }]);
  });

  it("that are given to a plugin without options are refused", () => {
    const plain = definePlugin({ name: "plain" }) as (options: object) => Plugin;

    expect(() => plain({ title: "x" })).toThrow('Plugin "plain" has no options: title is not accepted');
    expect(plain({})).toEqual({ name: "plain" });
  });

  it("that are invalid are found before the store is opened", async () => {
    const plugin = definePlugin({ name: "mailer", options: v.object({ from: v.string() }) });
    let opened = false;
    const start = testServer({
      agents: [greeter],
      plugins: plugin({ from: 1 as never }),
      store: () => {
        opened = true;
        throw new Error("not this far");
      },
    });

    await expect(start).rejects.toThrow("option from must be a string");
    expect(opened).toBe(false);
  });

  it("keep the messages of their schema", async () => {
    const plugin = definePlugin({
      name: "mailer",
      options: v.object({ from: v.pipe(v.string(), v.email("Please give a real address")) }),
    });

    await expect(serve(plugin({ from: "x" }))).rejects.toThrow(
      "option from: Please give a real address. Change",
    );
  });

  it("may be omitted if none is required, and are typed", async () => {
    const plugin = definePlugin({
      name: "mailer",
      options: v.object({ tries: v.optional(v.number(), 3) }),
      hooks: ["mailer:sent"],
      setup({ options, hooks }) {
        expectTypeOf(options).toEqualTypeOf<{ tries: number }>();
        expectTypeOf(hooks.emit).parameter(0).toEqualTypeOf<"mailer:sent">();
        hooks.emit("mailer:sent", { to: `${options.tries} people` });
      },
    });
    const without = definePlugin({
      name: "plain",
      setup({ options, hooks }) {
        expectTypeOf(options).toEqualTypeOf<undefined>();
        expectTypeOf(hooks.emit).parameter(0).toEqualTypeOf<never>();
      },
    });
    const told: string[] = [];
    const listener = definePlugin({
      name: "listener",
      setup: ({ hooks }) => void hooks.on("mailer:sent", ({ to }) => void told.push(to)),
    });

    await using _server = await serve(listener(), plugin(), without());

    expect(told).toEqual(["3 people"]);
    expectTypeOf(plugin).parameter(0).toEqualTypeOf<{ tries?: number | undefined } | undefined>();
    const strict = definePlugin({ name: "strict", options: v.object({ from: v.string() }) });
    expectTypeOf(strict).parameter(0).toEqualTypeOf<{ from: string }>();
  });

  it("belong to a plugin that must be called", async () => {
    const forgotten = definePlugin({ name: "audit-trail", setup() {} });

    await expect(serve(forgotten as unknown as Plugin)).rejects.toThrow(
      'Plugin "auditTrail" is a function: call it, auditTrail()',
    );
  });
});

describe("a plugin that is written as an object", () => {
  it("may have members of its own, but no misspelled one", async () => {
    const own = { name: "own", setup() {}, receivers: [], describe: () => "mine" };
    await using server = await serve(own);
    expect(server.url).toMatch(/^http/);

    await expect(serve({ name: "own", dependOn: ["events"], setup() {} } as Plugin)).rejects.toThrow(
      'Plugin "own": dependOn is not known: did you mean dependsOn?',
    );
  });
});

describe("a plugin's engines", () => {
  const check = (engines: string, version: string) => checkPlugins([{ name: "mailer", engines }], version);

  it.each([
    ["^1.2.0", "1.4.0"],
    [">=0.1 <2", "0.1.0"],
    ["^2.0.0-0", "2.0.0-beta.3"],
    ["^1.2.0", "1.3.0-beta.1"],
    ["*", "0.1.0"],
  ])("%s allow version %s", async (engines, version) => {
    await expect(check(engines, version)).resolves.toEqual(new Map());
  });

  it.each([
    ["^1.2.0", "1.1.9"],
    ["^1.2.0", "2.0.0"],
    ["^0.1.0", "0.2.0"],
  ])("%s do not allow version %s", async (engines, version) => {
    await expect(check(engines, version)).rejects.toThrow(
      `Plugin "mailer" needs agent-control-service ${engines}, and this is ${version}: install`,
    );
  });

  it("that are not a range are reported", async () => {
    await expect(check("latest greatest", "1.0.0")).rejects.toThrow(
      'Plugin "mailer" has engines "latest greatest", which is not a semver range such as "^1.2.0"',
    );
  });

  it("are compared with the version of the service that starts", async () => {
    const old = definePlugin({ name: "old", engines: "^99.0.0" });

    await expect(serve(old())).rejects.toThrow('Plugin "old" needs agent-control-service ^99.0.0');
  });
});

describe("handlers of agents", () => {
  const GREETING = createToken<{ say(name: string): string }>("greeting");
  const agent = defineAgent({
    name: "Polite",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: v.object({ name: v.string() }),
        run: async ({ fields, get, job }) => {
          expectTypeOf(get(GREETING).say).returns.toEqualTypeOf<string>();
          const item = await job.openCase({ id: "c", name: "C" });
          const { sure } = await item.ask({ question: "Sure?", fields: v.object({ sure: v.boolean() }) });
          return { message: get(GREETING).say(fields.name), sure };
        },
      },
      job_stop: { run: ({ get }) => void get(GREETING).say("stopped") },
      human_answer: { run: ({ get, log }) => log.info(get(GREETING).say("answerer")) },
      chat: { run: ({ get }) => ({ message: get(GREETING).say("chat") }) },
      custom: {
        greet: {
          fields: v.object({ to: v.string() }),
          run: ({ get, fields }) => get(GREETING).say(fields.to),
        },
      },
    },
  });

  it("get the parts of plugins", async () => {
    const said: string[] = [];
    const provider = definePlugin({
      name: "greeting",
      setup: ({ provide }) =>
        provide(GREETING, () => ({
          say: (name) => {
            said.push(name);
            return `Good morning, ${name}`;
          },
        })),
    });
    await using server = await testServer({ agents: [agent], plugins: [provider()] });
    const { service } = server;
    const runner = service.get(RUNNER);

    await startJob(service, { id: "job-1", fields: { name: "Ada" } });
    await until(service, "job-1", ["awaiting"]);
    await runner.answer("job-1", "c", { answer: { sure: true }, message: "" }, "someone");
    const job = await until(service, "job-1", ["completed"]);
    const chat = await runner.call("polite", { method: "chat", params: {} });
    await runner.call("polite", { method: "custom", name: "greet", params: {}, fields: { to: "Bob" } });
    await startJob(service, { id: "job-2", fields: { name: "Eve" } });
    await until(service, "job-2", ["awaiting"]);
    await runner.stop("job-2");
    await until(service, "job-2", ["cancelled"]);

    expect(job.result).toEqual({ message: "Good morning, Ada", sure: true });
    expect(chat).toEqual({ message: "Good morning, chat" });
    expect(said).toEqual(["answerer", "Ada", "chat", "Bob", "stopped"]);
  });

  it("get an error that names the missing part if no plugin provides it", async () => {
    await using server = await testServer({ agents: [agent] });
    const { service } = server;

    const failure = await service
      .get(RUNNER)
      .call("polite", { method: "chat", params: {} })
      .catch((error: unknown) => error);

    expect(failure).toMatchObject({
      name: "MissingPartError",
      message:
        'There is no part "greeting" in this service: add the plugin that provides it to createServer({ plugins })',
    });
  });
});
