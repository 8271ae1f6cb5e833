import { createRequire } from "node:module";
import { basename, resolve } from "node:path";
import * as v from "valibot";
import { toSlug } from "../core/agents/identity.ts";
import { needed, option } from "../core/base/option.ts";
import { defineCommand } from "./command.ts";
import { CliError } from "./errors.ts";
import { writeTemplate } from "./write-template.ts";

const TEMPLATES = new URL("../templates/", import.meta.url);

/** What a template adds to the plain project: folders whose files replace those before, and packages. */
interface Template {
  readonly agent: string;
  readonly folders: readonly string[];
  readonly packages: readonly string[];
}

const OF_AI_SDK = ["@ai-sdk/openai-compatible", "ai", "zod"];
const PLAIN: Template = { agent: "Word Counter", folders: [], packages: [] };
const CHOICES: Readonly<Record<string, Template>> = {
  agent: { agent: "Stock Desk", folders: ["init-model", "init-agent"], packages: OF_AI_SDK },
  chat: { agent: "Assistant", folders: ["init-model", "init-chat"], packages: OF_AI_SDK },
  approval: { agent: "Refund Desk", folders: ["init-model", "init-approval"], packages: OF_AI_SDK },
  langgraph: {
    agent: "Editor",
    folders: ["init-model", "init-langgraph"],
    packages: [...OF_AI_SDK, "@langchain/core", "@langchain/langgraph"],
  },
};

const own = createRequire(import.meta.url)("../../package.json") as {
  version: string;
  peerDependencies: { valibot: string };
  devDependencies: Record<string, string>;
};

const flags = v.object({
  template: v.optional(
    v.pipe(
      v.picklist(Object.keys(CHOICES)),
      v.description(
        `an agent that calls a model: ${Object.keys(CHOICES).join(", ")}; without it, one that calls none`,
      ),
    ),
  ),
  agent: option.text("name of the first agent", "name"),
  package: v.optional(
    needed.text("version or tarball of agent-control-service to install", "spec"),
    `^${own.version}`,
  ),
  yes: option.flag("ask nothing", { alias: "y" }),
});

/** `svc init`: creates a small project that runs. */
export const init = defineCommand({
  usage: "init [folder]",
  summary: "Create a small project that runs",
  flags,
  examples: ["svc init my-service", "svc init my-service --template approval", "svc init --yes"],
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
    const template = (flags.template && CHOICES[flags.template]) || PLAIN;
    const agent = flags.agent ?? (await ask("Name of the first agent", template.agent));
    if (toSlug(agent) === "") {
      throw new CliError(`"${agent}" is not a valid agent name`, {
        detail: "A name needs at least one letter or digit.",
      });
    }
    const folders = ["init", ...template.folders].map((name) => new URL(`${name}/`, TEMPLATES));
    await writeTemplate(folders, root, {
      name: toSlug(basename(root)) || "my-service",
      agent: JSON.stringify(agent).slice(1, -1),
      slug: toSlug(agent),
      template: flags.template ?? "",
      package: flags.package,
      packages: template.packages
        .map((name) => `,\n    "${name}": "^${own.devDependencies[name]?.replace("^", "")}"`)
        .join(""),
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
