// @long
import { describe, expect, it } from "vitest";
import { beginSvc, project, svc } from "./_svc.ts";

const CONTROLLER = `
import { writeFileSync } from "node:fs";
import { createServer, defineAgent, ServiceError } from "agent-control-service";
import { defineCommand, definePlugin, type Plugin } from "agent-control-service/plugin";
import * as v from "valibot";

const hello = defineAgent({ name: "Hello", version: "1.0.0", methods: { job_start: { run: () => "done" } } });

const greetings = definePlugin({
  name: "greetings",
  options: v.object({ greeting: v.optional(v.string(), "Hello") }),
  setup: () => writeFileSync("started.txt", "yes"),
  commands: (options) => [
    defineCommand({
      usage: "greet <name> [more]",
      summary: "Greet somebody",
      flags: v.object({
        times: v.optional(v.pipe(v.number(), v.integer("must be a whole number"), v.description("how often")), 1),
        loud: v.optional(v.boolean(), false),
        tag: v.optional(v.array(v.string()), []),
      }),
      examples: ["svc greet Ada --times 3"],
      run({ args, flags, print, note }) {
        const text = options.greeting + ", " + args[0] + flags.tag.map((tag) => " #" + tag).join("");
        for (let n = 0; n < flags.times; n++) print(flags.loud ? text.toUpperCase() : text);
        note("greeted");
        return flags.times > 5 ? 3 : undefined;
      },
    }),
    defineCommand({
      usage: "agents-there",
      summary: "List the agents of the running service",
      connects: true,
      flags: v.object({ json: v.optional(v.boolean(), false) }),
      async run({ connect, print, flags }) {
        const service = await connect();
        const agents = await service.get<{ slug: string }[]>("/agents");
        print(flags.json ? JSON.stringify(agents.map(({ slug }) => slug)) : agents.map(({ slug }) => slug).join(" "));
      },
    }),
    defineCommand({ usage: "shelf", summary: "List", run: ({ table }) => table(["book", "state"], [["A", "lent"], ["Longer", "here"]]) }),
    defineCommand({ usage: "fail-kindly", summary: "Fail", run: () => { throw new ServiceError("not_found", "There is no moon", { detail: "Look again." }); } }),
    defineCommand({ usage: "fail", summary: "Fail", run: () => { throw new TypeError("x is undefined"); } }),
    defineCommand({ usage: "wait-in-vain", summary: "Wait", run: () => new Promise(() => {}) }),
    defineCommand({ usage: "start", summary: "In the way", run() {} }),
  ],
});
const old: Plugin = { name: "old", commands: [{ usage: "where", summary: "Say where the data is", run: ({ dataDir, print }) => print(dataDir) }] };

export default createServer({ agents: [hello], plugins: [greetings({ greeting: "Good morning" }), old], port: 0 });
`;

const withController = (text = CONTROLLER) => project({ "src/controller.ts": text });

const FOREIGN = {
  zod: `z.object({
    times: z.number().int().default(1).describe("how often"),
    loud: z.boolean().default(false),
    mood: z.enum(["good", "bad"]).optional(),
    tagNames: z.array(z.string()).default([]),
  })`,
  arktype: `type({
    times: "number.integer = 1",
    loud: "boolean = false",
    "mood?": "'good' | 'bad'",
    tagNames: type("string[]").default(() => []),
  })`,
};

describe.each(Object.entries(FOREIGN))("a command whose flags are a schema of %s", (library, flags) => {
  const controller = `
import { createServer, defineAgent } from "agent-control-service";
import { defineCommand, definePlugin } from "agent-control-service/plugin";
import { type } from "arktype";
import * as z from "zod";

const hello = defineAgent({ name: "Hello", version: "1.0.0", methods: { job_start: { run: () => "done" } } });
const greet = defineCommand({
  usage: "greet <name>",
  summary: "Greet somebody",
  flags: ${flags},
  run: ({ args, flags, print }) => print(JSON.stringify([args[0], flags])),
});
export default createServer({ agents: [hello], plugins: [definePlugin({ name: "hi", setup: () => {}, commands: [greet] })()], port: 0 });
`;

  it("reads them, explains them, and refuses what is wrong by its name", async () => {
    const cwd = await withController(controller);
    const greet = (...args: string[]) => svc(["greet", "Ada", ...args], { cwd });
    const [plain, all, wrong, choice, unknown, help] = await Promise.all([
      greet(),
      greet("--times", "3", "--loud", "--mood", "good", "--tag-names", "a", "--tag-names", "b"),
      greet("--times", "1.5"),
      greet("--mood", "odd"),
      greet("--tims", "2"),
      greet("--help"),
    ]);

    expect(plain.stderr).toBe("");
    expect(JSON.parse(plain.stdout)).toEqual(["Ada", { times: 1, loud: false, tagNames: [] }]);
    const expected = { times: 3, loud: true, mood: "good", tagNames: ["a", "b"] };
    expect(JSON.parse(all.stdout)).toEqual(["Ada", expected]);
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringMatching(/--times must be/) });
    expect(choice).toMatchObject({ code: 2, stderr: expect.stringContaining("--mood must be one of") });
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining("--times") });
    expect(help.stdout).toMatch(/--times <number>/);
    expect(help.stdout).toMatch(/--tag-names/);
  });

  it("is reported where the schema names no flags", async () => {
    const cwd = await withController(
      controller.replace(flags, library === "zod" ? "z.any()" : 'type("object")'),
    );

    const help = await svc(["--help"], { cwd });

    expect(help.stdout + help.stderr).toContain(
      'Command "greet <name>" of plugin "hi", flags: the schema has no JSON Schema that names them',
    );
  });
});

describe("commands of plugins", () => {
  it("that wait for something that cannot come end with an error, and not in silence", async () => {
    const cwd = await withController();

    const waited = await svc(["wait-in-vain"], { cwd });

    expect(waited).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("has nothing left to wait for"),
    });
  });

  it("are listed in the help of a project, without starting its service", async () => {
    const cwd = await withController();

    const help = await svc(["--help"], { cwd });

    expect(help.code).toBe(0);
    expect(help.stdout).toMatch(/^ {2}greet <name> \[more\] +Greet somebody \(plugin greetings\)$/m);
    expect(help.stdout).toMatch(/^ {2}where +Say where the data is \(plugin old\)$/m);
    expect(help.stdout.match(/^ {2}start /gm)).toHaveLength(1);
    expect(help.stderr).toBe(
      `Plugin "greetings" has a command "start", which is a built-in command of svc: the plugin's cannot be used\n`,
    );
    const { readdir } = await import("node:fs/promises");
    expect((await readdir(cwd)).sort()).toEqual(["node_modules", "package.json", "src"]);
  });

  it("get their flags, arguments and options, and set the exit code", async () => {
    const cwd = await withController();

    const greet = await svc(["greet", "Ada", "--times", "2", "--loud", "--tag", "a", "--tag", "007"], {
      cwd,
    });
    const often = await svc(["greet", "Ada", "--times", "6"], { cwd });
    const where = await svc(["where"], { cwd });
    const own = await svc(["greet", "--help"], { cwd });

    expect(greet).toMatchObject({
      code: 0,
      stdout: "GOOD MORNING, ADA #A #007\n".repeat(2),
      stderr: "greeted\n",
    });
    expect(often.code).toBe(3);
    expect((await svc(["shelf"], { cwd })).stdout).toBe("book    state\nA       lent\nLonger  here\n");
    expect(where.stdout).toMatch(/\/data\n$/);
    expect(own.stdout).toContain("--times <number>  how often (default: 1)");
    expect(own.stdout).toContain("$ svc greet Ada --times 3");
  });

  it("are refused like the built-in ones if they are mistyped", async () => {
    const cwd = await withController();
    const tell = async (...words: string[]) => {
      const { code, stderr } = await svc(words, { cwd });
      return `${code} ${stderr.split("\n").find((line) => line.startsWith("svc:"))}`;
    };

    expect(await tell("greet", "Ada", "--time", "2")).toBe(
      "2 svc: Unknown option --time. Did you mean --times?",
    );
    expect(await tell("greet", "Ada", "--times", "1.5")).toBe(
      '2 svc: Option --times must be a whole number, not "1.5".',
    );
    expect(await tell("greet")).toBe("2 svc: Missing argument <name>. Usage: svc greet <name> [more]");
    expect(await tell("great", "Ada")).toBe('2 svc: Unknown command "great". Did you mean "svc greet"?');
  });

  it("report their failures like the built-in ones", async () => {
    const cwd = await withController();

    expect(await svc(["fail-kindly"], { cwd })).toMatchObject({
      code: 1,
      stderr: "Error: There is no moon\n  Look again.\n",
    });
    const failed = await svc(["fail"], { cwd });
    expect(failed.code).toBe(1);
    expect(failed.stderr).toMatch(/^Error: Unexpected error\n {2}TypeError: x is undefined\n/);
  });

  it("call the running service, and say so if none is running", async () => {
    const cwd = await withController();

    const none = await svc(["agents-there"], { cwd, env: { SERVICE_PORT: "1" } });
    const running = beginSvc(["start"], { cwd, env: { SERVICE_API_KEY: "a-key-of-a-test-0123456789" } });
    await running.prints(/is running/);
    const there = await svc(["agents-there", "--json"], {
      cwd,
      env: { SERVICE_API_KEY: "a-key-of-a-test-0123456789" },
    });
    const wrong = await svc(["agents-there", "--key", "another-key"], { cwd });

    expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining("No service responds at") });
    expect(there).toMatchObject({ code: 0, stdout: '["hello"]\n', stderr: "" });
    expect(wrong.stderr).toContain("rejected the API key");
  });

  it("are completed, with their flags", async () => {
    const cwd = await withController();

    expect((await svc(["--complete", "gre"], { cwd })).stdout).toBe("greet\n");
    expect((await svc(["--complete", "greet", "Ada", "--t"], { cwd })).stdout).toBe("--times\n--tag\n");
  });

  it.each([
    ["throws", 'throw new Error("no database");', "no database"],
    [
      "has a plugin whose options are wrong",
      CONTROLLER.replace('greeting: "Good morning"', "greeting: 1 as never"),
      'Plugin "greetings" cannot use its options: option greeting must be a string',
    ],
    [
      "has two plugins with one command",
      CONTROLLER.replace('usage: "where"', 'usage: "greet"'),
      'Plugins "greetings" and "old" both have a command "greet"',
    ],
  ])("do not break svc if the controller %s", async (_, text, problem) => {
    const cwd = await withController(text);

    const help = await svc(["--help"], { cwd });
    const unknown = await svc(["greet", "Ada"], { cwd });

    expect(help.code).toBe(0);
    expect(help.stdout).toContain("start [file]");
    expect(help.stderr).toContain("The commands of this project's plugins are unknown: ");
    expect(help.stderr).toContain(problem);
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toContain(problem);
    expect(unknown.stderr).toContain('Unknown command "greet"');
  });

  it("are not loaded outside of a project, nor for a built-in command", async () => {
    const cwd = await withController('throw new Error("loaded");');

    expect(await svc(["--version"], { cwd })).toMatchObject({ code: 0, stderr: "" });
    expect(await svc(["completion", "bash"], { cwd })).toMatchObject({ code: 0, stderr: "" });
    expect((await svc(["greet"], { cwd: await project() })).stderr).not.toContain("plugins");
  });
});
