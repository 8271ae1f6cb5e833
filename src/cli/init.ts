import { createRequire } from "node:module";
import { basename, resolve } from "node:path";
import * as v from "valibot";
import { toSlug } from "../core/agents/identity.ts";
import { defineCommand } from "./command.ts";
import { CliError } from "./errors.ts";
import { writeTemplate } from "./write-template.ts";

const TEMPLATE = new URL("../../templates/init/", import.meta.url);
const own = createRequire(import.meta.url)("../../package.json") as {
  version: string;
  peerDependencies: { valibot: string };
  devDependencies: Record<string, string>;
};

const flags = v.object({
  agent: v.optional(
    v.pipe(v.string(), v.description("name of the first agent"), v.metadata({ value: "name" })),
  ),
  package: v.optional(
    v.pipe(
      v.string(),
      v.description("version or tarball of agent-control-service to install"),
      v.metadata({ value: "spec" }),
    ),
    `^${own.version}`,
  ),
  yes: v.optional(v.pipe(v.boolean(), v.description("ask nothing"), v.metadata({ alias: "y" })), false),
});

/** `svc init`: creates a small project that runs. */
export const init = defineCommand({
  usage: "init [folder]",
  summary: "Create a small project that runs",
  flags,
  examples: ["svc init my-service", "svc init --yes"],
  async run({ args, flags, context }) {
    const ask = async (message: string, initialValue: string): Promise<string> => {
      if (flags.yes || !context.interactive) return initialValue;
      const { isCancel, text } = await import("@clack/prompts");
      const answer = await text({ message, initialValue });
      if (isCancel(answer)) throw new CliError("Nothing was written");
      return answer.trim() || initialValue;
    };
    const folder = args[0] ?? (await ask("Folder of the project", "."));
    const root = resolve(context.cwd, folder);
    const agent = flags.agent ?? (await ask("Name of the first agent", "Word Counter"));
    if (toSlug(agent) === "") {
      throw new CliError(`"${agent}" is not a valid agent name`, {
        detail: "A name needs at least one letter or digit.",
      });
    }
    await writeTemplate(TEMPLATE, root, {
      name: toSlug(basename(root)) || "my-service",
      agent: JSON.stringify(agent).slice(1, -1),
      slug: toSlug(agent),
      package: flags.package,
      valibot: own.peerDependencies.valibot,
      vitest: own.devDependencies.vitest ?? "4",
      typescript: own.devDependencies.typescript ?? "5",
    });
    context.print(nextSteps(folder));
    return 0;
  },
});

function nextSteps(folder: string): string {
  const enter = folder === "." ? [] : [`  cd ${folder}`];
  return ["Project created. Next:", "", ...enter, "  npm install", "  npx svc dev"].join("\n");
}
