import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { type Command, type CommandInput, defineCommand } from "../../src/cli/command.ts";
import type { CliContext } from "../../src/cli/context.ts";
import { runProgram } from "../../src/cli/program.ts";

const flags = v.object({
  port: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.description("port to listen on"))),
  image: v.optional(v.string()),
  environment: v.optional(v.picklist(["dev", "staging", "prod"]), "dev"),
  field: v.optional(v.pipe(v.array(v.string()), v.metadata({ value: "name=value" })), []),
  yes: v.optional(v.pipe(v.boolean(), v.metadata({ alias: "y" })), false),
  rollback: v.optional(v.boolean(), true),
});

async function run(...argv: string[]) {
  const told: string[] = [];
  let got: CommandInput | undefined;
  const ship = defineCommand({
    usage: "ship <target> [...more]",
    summary: "Ships",
    flags,
    run: async (input) => {
      got = input as CommandInput;
      return 0;
    },
  });
  const still: Command = { usage: "still [file]", summary: "Does nothing", run: async () => 7 };
  const group = {
    name: "more",
    summary: "More",
    load: async () => ({
      run: (rest: readonly string[], context: CliContext) =>
        runProgram({ name: "probe more", summary: "More", commands: [still] }, rest, context),
    }),
  };
  const context = {
    argv,
    self: [],
    cwd: ".",
    env: {},
    print: () => {},
    note: (line: string) => told.push(line),
  };
  const program = {
    name: "probe",
    summary: "A probe",
    version: "1.2.3",
    commands: [ship, still],
    groups: [group],
  };
  const code = await runProgram(program, argv, { ...context, interactive: false, platforms: {} });
  return { code, told: told.join("\n"), args: got?.args, flags: got?.flags };
}

describe("a command line", () => {
  it("passes arguments, options and defaults with their types", async () => {
    const result = await run(
      "ship",
      "a",
      "b",
      "--port",
      "80",
      "-y",
      "--no-rollback",
      "--field",
      "x=1",
      "--field=y=2",
    );

    expect(result.args).toEqual(["a", "b"]);
    expect(result.flags).toEqual({
      port: 80,
      environment: "dev",
      field: ["x=1", "y=2"],
      yes: true,
      rollback: false,
    });
  });

  it.each(["012345678901", "1234e56", "0x1f", "1.10", "-1", "", "Infinity"])(
    "keeps %j as typed",
    async (text) => {
      const result = await run("ship", text, "--image", text, `--field=${text}`);

      expect(result).toMatchObject({ code: 0, args: [text], flags: { image: text, field: [text] } });
    },
  );

  it("treats everything after -- as arguments", async () => {
    const result = await run("ship", "a", "--", "--port");

    expect(result).toMatchObject({ code: 0, args: ["a", "--port"] });
  });

  it("accepts a switch before an argument", async () => {
    const result = await run("ship", "--yes", "a");

    expect(result).toMatchObject({ args: ["a"], flags: { yes: true } });
  });

  it.each([
    [["shpi", "a"], 'Unknown command "shpi". Did you mean "probe ship"?'],
    [["xyzzy"], "Commands: ship, still, more."],
    [["ship", "a", "--prot", "1"], "Unknown option --prot. Did you mean --port?"],
    [["ship", "a", "--__proto__", "1"], "Unknown option --__proto__"],
    [["ship", "a", "-x"], "Unknown option -x"],
    [["--nope"], "Unknown option --nope"],
    [["ship", "a", "--port"], "Option --port needs a value"],
    [["ship", "a", "--port", "80a"], 'Option --port must be a number, not "80a"'],
    [["ship", "a", "--port", "-1"], 'Option --port must be at least 0, not "-1"'],
    [["ship", "a", "--port", "1", "--port", "2"], "Option --port is set more than once"],
    [
      ["ship", "a", "--environment", "prd"],
      'must be one of dev, staging, prod, not "prd". Did you mean prod?',
    ],
    [["ship"], "Missing argument <target>. Usage: probe ship <target>"],
    [["still", "a", "b"], 'Unexpected argument "b"'],
    [["more", "stil"], 'Unknown command "stil". Did you mean "probe more still"?'],
  ])("refuses %j with exit code 2", async (argv, message) => {
    const result = await run(...argv);

    expect(result.code).toBe(2);
    expect(result.told).toContain(message);
  });

  it.each([
    [
      "names the command whose help lists the options",
      ["ship", "x", "--port", "abc"],
      /Run "probe ship --help" for a list of options\.$/,
    ],
    ["names no help where it says what to do", ["ship", "x", "--imag", "y"], /Did you mean --image\?$/],
    [
      "names a switch's two spellings",
      ["ship", "x", "--rollback=false"],
      /takes no value\. Write --rollback or --no-rollback\.$/,
    ],
    [
      "is about the command where that is unknown, and not about its options",
      ["notes", "--nope"],
      /Unknown command "notes"\. Commands: /,
    ],
  ])("that is invalid %s", async (_behavior, argv, expected) => {
    const { code, told } = await run(...argv);

    expect(code).toBe(2);
    expect(told).toMatch(expected);
  });

  it("shows help for the program and each command", async () => {
    expect((await run("--help")).code).toBe(0);
    expect((await run("ship", "--help")).code).toBe(0);
    expect((await run("help", "ship")).code).toBe(0);
    expect((await run("more", "still", "-h")).code).toBe(0);
    expect((await run("--version")).code).toBe(0);
    expect((await run()).code).toBe(2);
  });

  it("returns the command's own exit code", async () => {
    expect((await run("more", "still")).code).toBe(7);
  });
});
