import { H3_APP } from "agent-control-service/h3";
import {
  AGENTS,
  CASES,
  CLOCK,
  createToken,
  defineRoute,
  HOOKS,
  JOBS,
  PLUGINS,
  type Plugin,
  PluginError,
  type PluginHookName,
  type PluginInput,
  ROUTER,
} from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { greeter } from "./_setup.ts";

const serve = (plugins: PluginInput, more: { pluginTimeout?: number } = {}) =>
  testServer({ agents: [greeter], plugins, ...more });

/** A plugin that writes down when it is set up and closed. */
function noting(name: string, notes: string[], dependsOn?: string[]): Plugin {
  return {
    name,
    dependsOn,
    setup: ({ onClose }) => {
      notes.push(`${name} up`);
      onClose(() => void notes.push(`${name} down`));
    },
  };
}

declare module "agent-control-service/plugin" {
  interface ServiceHooks {
    "test:greeted": { name: string };
  }
}

describe("plugins", () => {
  it("are set up after their dependencies, and closed in reverse order", async () => {
    const notes: string[] = [];
    const server = await serve([
      noting("c", notes, ["b"]),
      noting("a", notes),
      noting("b", notes, ["a"]),
      noting("d", notes),
    ]);

    const order = server.service
      .get(PLUGINS)()
      .map(({ name }) => name);
    await server[Symbol.asyncDispose]();

    expect(order.filter((name) => name.length === 1)).toEqual(["a", "b", "c", "d"]);
    expect(notes).toEqual([...["a up", "b up", "c up", "d up"], ...["d down", "c down", "b down", "a down"]]);
  });

  it("that are functions that were not called are refused", async () => {
    const forgotten = function audit() {} as unknown as Plugin;

    await expect(serve([forgotten])).rejects.toThrow('"audit" is a function: call it, audit()');
    await expect(serve([Promise.resolve() as unknown as Plugin])).rejects.toThrow(/is a promise: await it/);
  });

  it("can read jobs and cases, and change them only through the runner", async () => {
    await using server = await serve([]);
    const methods = (part: object) => Object.getOwnPropertyNames(Object.getPrototypeOf(part)).sort();

    expect(methods(server.service.get(JOBS))).toEqual(
      [
        ...[
          "areSeen",
          "asSeen",
          "constructor",
          "costBy",
          "countBy",
          "damaged",
          "deleted",
          "find",
          "get",
          "ids",
          "list",
        ],
        ...[
          "exportAsSeen",
          "findDeleted",
          "log",
          "logEnds",
          "openChildren",
          "peek",
          "seenBy",
          "show",
          "textsAsSeen",
        ],
      ].sort(),
    );
    expect(methods(server.service.get(CASES))).toEqual(
      [
        ...[
          "constructor",
          "countBy",
          "deleted",
          "find",
          "findDeleted",
          "get",
          "ids",
          "list",
          "listWithUpdates",
          "ofJob",
          "seenBy",
          "summary",
        ],
        "updates",
      ].sort(),
    );
  });

  it("may be in nested lists with empty entries", async () => {
    const notes: string[] = [];

    await using _server = await serve([null, [noting("a", notes), [false, [noting("b", notes)]]], undefined]);

    expect(notes).toEqual(["a up", "b up"]);
  });

  it("replace an earlier one of the same name, even a built-in one", async () => {
    const notes: string[] = [];
    await using server = await serve([
      noting("a", notes),
      { name: "a", setup: () => void notes.push("other a up") },
      { name: "docs", setup: ({ get }) => void get(H3_APP).get("/docs", () => "my docs") },
    ]);

    expect(notes).toEqual(["other a up"]);
    expect(await (await server.request("/docs")).text()).toBe("my docs");
    expect((await server.request("/openapi.json")).status).toBe(404);
  });

  it.each<[string, Plugin[], string]>([
    [
      "a missing dependency",
      [{ name: "a", dependsOn: ["b"] }],
      'Plugin "a" depends on "b", which is not in the list of plugins (a → b)',
    ],
    [
      "a circle",
      [
        { name: "a", dependsOn: ["b"] },
        { name: "b", dependsOn: ["a"] },
      ],
      "Plugins have a circular dependency: a → b → a",
    ],
    ["a missing name", [{ name: "" }], "A plugin has no name"],
  ])("are refused with %s", async (_name, plugins, message) => {
    await expect(serve(plugins)).rejects.toThrow(message);
  });

  it("that are not ready in time are named", async () => {
    const slow: Plugin = { name: "slow", setup: () => new Promise(() => {}) };

    await expect(serve([slow], { pluginTimeout: 2 })).rejects.toThrow(
      'Plugin "slow" was not set up within 2 s (option pluginTimeout)',
    );
  });

  it("that fail are named, with the cause", async () => {
    const cause = new TypeError("no port");
    const broken: Plugin = {
      name: "broken",
      setup: () => {
        throw cause;
      },
    };

    const failure = await serve([broken]).catch((error: unknown) => error);

    expect(failure).toBeInstanceOf(PluginError);
    expect(failure).toMatchObject({ message: 'Plugin "broken" could not be set up: no port', cause });
  });

  it("that fail are followed by closing those set up before them", async () => {
    const notes: string[] = [];
    const broken: Plugin = {
      name: "broken",
      setup: () => {
        throw new Error("no");
      },
    };

    await serve([noting("a", notes), broken]).catch(() => {});

    expect(notes).toEqual(["a up", "a down"]);
  });

  it("get the parts of their declared dependencies, and of no others", async () => {
    const PART = createToken<{ value: number }>("part");
    const owner: Plugin = { name: "owner", setup: ({ provide }) => provide(PART, () => ({ value: 7 })) };
    const seen: number[] = [];
    const friend: Plugin = {
      name: "friend",
      dependsOn: ["owner"],
      setup: ({ get }) => void seen.push(get(PART).value),
    };
    const friendOfFriend: Plugin = { ...friend, name: "friend of friend", dependsOn: ["friend"] };
    const stranger: Plugin = { name: "stranger", setup: ({ get }) => void get(PART) };

    await using _server = await serve([friendOfFriend, friend, owner]);

    expect(seen).toEqual([7, 7]);
    await expect(serve([owner, stranger])).rejects.toThrow(
      'Plugin "stranger" asks for "part" of plugin "owner": add "owner" to its dependsOn',
    );
  });

  it("create their parts once, on first use", async () => {
    const PART = createToken<object>("part");
    let made = 0;
    const owner: Plugin = {
      name: "owner",
      setup: ({ provide }) =>
        provide(PART, () => {
          made++;
          return {};
        }),
    };

    await using server = await serve([owner]);
    expect(made).toBe(0);
    expect(server.service.get(PART)).toBe(server.service.get(PART));
    expect(made).toBe(1);
  });

  it("cannot replace an existing part", async () => {
    const thief: Plugin = { name: "thief", setup: ({ provide }) => provide(CLOCK, () => () => new Date(0)) };

    await expect(serve([thief])).rejects.toThrow('Plugin "thief" provides "clock", which already exists');
  });

  it("of third parties can add routes, observe, and use the service like the built-in ones", async () => {
    const told: string[] = [];
    const greetings: Plugin = {
      name: "greetings",
      setup: ({ get, hooks, log }) => {
        hooks.on("service:ready", ({ info }) => void told.push(`ready on ${info.port}`));
        get(ROUTER).add(
          defineRoute({
            method: "GET",
            path: "/greetings",
            auth: "key",
            needs: "view",
            summary: "Greets each agent",
            tag: "Greetings",
            responses: { 200: { description: "Greetings" } },
            handler: () =>
              get(AGENTS)
                .list()
                .map(({ slug }) => `Hello ${slug}`),
          }),
        );
        log.warn("set up");
      },
    };

    await using server = await serve([greetings]);

    expect(await (await server.request("/greetings")).json()).toEqual(["Hello greeter"]);
    expect((await server.request("/greetings", { key: null })).status).toBe(401);
    expect(told).toEqual([`ready on ${new URL(server.url).port}`]);
    expect(server.logs.join("")).toContain("set up plugin=greetings");
  });

  it("whose routes collide get an error that names the route", async () => {
    const route = (path: string) =>
      defineRoute({
        method: "GET",
        path,
        auth: "key",
        needs: "view",
        summary: "x",
        tag: "x",
        responses: {},
        handler: () => ({}),
      });
    const twice: Plugin = {
      name: "twice",
      setup: ({ get }) => {
        get(ROUTER).add(route("/twice"));
        get(ROUTER).add(route("/twice/"));
      },
    };
    const unchecked: Plugin = {
      name: "unchecked",
      setup: ({ get }) => get(ROUTER).add(route("/things/{id}")),
    };

    await expect(serve([twice])).rejects.toThrow("Route GET /twice/ already exists");
    await expect(serve([unchecked])).rejects.toThrow('Route GET /things/{id} has no schema for "id"');
  });

  it("whose observers fail do not stop the others", async () => {
    const told: string[] = [];
    const bad: Plugin = {
      name: "bad",
      setup: ({ hooks }) =>
        void hooks.on("service:ready", () => {
          throw new Error("observer trouble");
        }),
    };
    const good: Plugin = {
      name: "good",
      setup: ({ hooks }) => void hooks.on("service:ready", () => void told.push("told")),
    };

    await using server = await serve([bad, good]);

    expect(told).toEqual(["told"]);
    expect(server.logs.join("")).toContain("observer trouble");
  });

  it("communicate with hooks of their own", async () => {
    const greeted: string[] = [];
    const listener: Plugin = {
      name: "listener",
      setup: ({ hooks }) => void hooks.on("test:greeted", ({ name }) => void greeted.push(name)),
    };
    const teller: Plugin = {
      name: "teller",
      dependsOn: ["listener"],
      hooks: ["test:greeted"],
      setup: ({ hooks }) => hooks.emit("test:greeted", { name: "Ada" }),
    };

    await using _server = await serve([teller, listener]);

    expect(greeted).toEqual(["Ada"]);
  });

  it("cannot emit a hook of the service or of another plugin, even with casts", async () => {
    const emit = (hook: string, hooks: PluginHookName[] = []): Plugin => ({
      name: "forger",
      hooks,
      setup: (context) => (context.hooks.emit as (name: string, payload: unknown) => void)(hook, {}),
    });
    const owner: Plugin = { name: "owner", hooks: ["test:greeted"] };

    await expect(serve([emit("job:finished")])).rejects.toThrow(
      'Plugin "forger" cannot emit "job:finished": only the service does',
    );
    await expect(serve([owner, emit("test:greeted")])).rejects.toThrow(
      'Plugin "forger" cannot emit "test:greeted": only plugin "owner" does',
    );
    await expect(serve([emit("test:greeted")])).rejects.toThrow("add it to the plugin's hooks");
    await expect(serve([owner, emit("x", ["test:greeted"])])).rejects.toThrow(
      'Plugin "forger" declares the hook "test:greeted", which belongs to plugin "owner"',
    );
    await expect(serve([emit("x", ["job:finished" as PluginHookName])])).rejects.toThrow(
      'declares the hook "job:finished", which belongs to the service',
    );
  });

  it("get only a way to add observers from the token of the hooks", async () => {
    await using server = await serve([]);

    expect(Object.keys(server.service.get(HOOKS))).toEqual(["on"]);
  });

  it("are notified that the service listens, even if they ask late", async () => {
    const told: string[] = [];
    let setUpEnds = false;
    const waiting: Plugin = {
      name: "waiting",
      setup(context) {
        void context.ready.then(({ info }) => told.push(`${info.port} ${setUpEnds}`));
      },
    };
    const late: Plugin = {
      name: "late",
      setup(context) {
        context.hooks.on("service:ready", async () => void told.push(`late ${(await context.ready).url}`));
        setUpEnds = true;
      },
    };

    await using server = await serve([waiting, late]);

    await expect.poll(() => told).toEqual([`${new URL(server.url).port} true`, `late ${server.url}`]);
  });

  it("that wait for the service to listen before it can get an error", async () => {
    const stuck: Plugin = {
      name: "stuck",
      setup: async ({ ready }) => {
        await ready;
      },
    };

    await expect(serve([stuck], { pluginTimeout: 1 })).rejects.toThrow(
      'Plugin "stuck" was not set up within 1 s (option pluginTimeout). It must not wait for `ready`',
    );
  });
});
