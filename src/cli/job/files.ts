import { createWriteStream } from "node:fs";
import { resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import type { ListedFile } from "../../core/models/file.ts";
import { defineCommand } from "../command.ts";
import { CliError, UsageError } from "../errors.ts";
import { renderTable } from "../table.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";

const flags = v.object({
  get: option.text("download the file with this name, or the beginning of its SHA-256", "name"),
  to: option.text("with --get: where to write it (default: its name, in the current folder)", "path"),
  ...CONNECTION_FLAGS,
});

/** `svc job files`: lists the files of a job, or downloads one. */
export const files = defineCommand({
  usage: "files <job>",
  summary: "List the files of a job, or download one of them",
  flags,
  examples: ["svc job files job-1a2b3c4d", "svc job files job-1a2b3c4d --get report.csv"],
  async run({ args, flags, context }) {
    if (flags.to !== undefined && flags.get === undefined) throw new UsageError("--to needs --get");
    const client = await connect(flags, context);
    const path = `/jobs/${encodeURIComponent(args[0]!)}/files`;
    const listed = await client.get<ListedFile[]>(path);
    if (flags.get === undefined) {
      if (flags.json) context.print(JSON.stringify(listed, null, 2));
      else if (listed.length === 0) context.print("The job has no files.");
      else context.print(renderTable(HEADER, listed.map(toRow), context.paint?.print));
      return 0;
    }
    const wanted = flags.get;
    const found = listed.findLast(({ name, sha256 }) => name === wanted || sha256.startsWith(wanted));
    if (!found)
      throw new CliError(`The job has no file "${wanted}"`, { detail: "svc job files <job> lists them." });
    const to = resolve(context.cwd, flags.to ?? found.name);
    try {
      await pipeline(client.download(`${path}/${found.sha256}`), createWriteStream(to, { flags: "wx" }));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      throw new CliError(`${to} already exists`, { detail: "Set another place with --to." });
    }
    context.print(to);
    return 0;
  },
});

const HEADER = ["name", "type", "bytes", "from", "sha256"];

function toRow({ name, type, size, origin, sha256, artifact }: ListedFile): string[] {
  return [name, type, String(size), artifact ?? origin, sha256.slice(0, 16)];
}
