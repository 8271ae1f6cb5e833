import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { option } from "../../core/base/option.ts";
import { exportRelease } from "../../deploy/export/export.ts";
import { UsageError } from "../errors.ts";
import * as flags from "./flags.ts";
import { platformCommand } from "./platform-command.ts";
import { tellResult } from "./result.ts";
import { inFirst } from "./several.ts";

/** `svc deploy export`: what `up` would release, for another tool. */
export const exportCommand = platformCommand({
  usage: "export [format]",
  summary:
    "Write what svc deploy up would release as a file of another tool: compose, terraform, cloudformation or cloud-run",
  flags: {
    ...flags.TARGET_FLAGS,
    ...flags.RELEASE_FLAGS,
    to: option.text("file to write (default: standard output)", "file"),
    ...flags.VERBOSE,
    ...flags.JSON_FLAG,
  },
  examples: [
    "svc deploy export compose --to ../compose.yaml",
    "svc deploy export cloud-run --env prod --to ../service.yaml",
    "svc deploy export terraform --env prod --to ../service.tf",
  ],
  several: inFirst,
  run: async ({ shell, deployment, given, args }) => {
    const [format] = args;
    if (format === undefined)
      throw new UsageError(
        "The format is missing",
        "Write svc deploy export compose, terraform, cloudformation or cloud-run.",
      );
    const { text, image, secrets } = await exportRelease(deployment, format);
    const to = given.to as string | undefined;
    if (to !== undefined)
      await writeFile(resolve(shell.context.cwd, to), text, { flag: "wx" }).catch(refuse(to));
    const written = [
      `Wrote ${to}, for the image ${image}`,
      ...(secrets.length > 0 ? [`Secrets that it refers to: ${secrets.join(", ")}`] : []),
    ];
    return tellResult(shell, {
      document: { format, image, secrets, text: to === undefined ? text : null, file: to ?? null },
      lines: to === undefined ? text.trimEnd().split("\n") : written,
    });
  },
});

const refuse = (to: string) => (error: NodeJS.ErrnoException) => {
  if (error.code === "EEXIST")
    throw new UsageError(`${to} already exists`, "Remove it, or name another file.");
  throw new UsageError(`${to} cannot be written: ${error.code}`);
};
