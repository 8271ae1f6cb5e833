import type { CliContext } from "../../src/cli/context.ts";
import { run } from "../../src/cli/deploy/main.ts";
import type { Platform } from "../../src/deploy/platform.ts";
import type { Stage } from "./_fixture.ts";

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs a line of `svc deploy`, as text or in words, on the memory platform. */
export async function svc(
  at: Pick<Stage, "cwd"> & Partial<Pick<Stage, "platform">>,
  line: string | readonly string[],
  some: Partial<CliContext> = {},
): Promise<Ran> {
  const argv = typeof line === "string" ? line.split(" ").filter(Boolean) : line;
  const out: string[] = [];
  const err: string[] = [];
  const print = console.info;
  // The help comes from the parser, which prints by itself.
  console.info = (text: string) => void out.push(text);
  try {
    const code = await run(argv, {
      argv: ["deploy", ...argv],
      self: [],
      cwd: at.cwd,
      env: { PATH: process.env.PATH },
      print: (text) => void out.push(text),
      note: (text) => void err.push(text),
      interactive: false,
      platforms: { memory: async () => ({ default: at.platform as Platform<never> }) },
      ...some,
    });
    return { code, out: out.join("\n"), err: err.join("\n") };
  } finally {
    console.info = print;
  }
}
