import * as v from "valibot";
import { defineCommand } from "../command.ts";
import { CliError, UsageError } from "../errors.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";

/** `svc job delete`: deletes a job with everything that belongs to it. */
export const remove = defineCommand({
  usage: "delete <job>",
  summary: "Delete a job with its cases; a running one is stopped first",
  flags: v.object({
    yes: v.optional(
      v.pipe(v.boolean(), v.description("do not ask for confirmation"), v.metadata({ alias: "y" })),
      false,
    ),
    ...CONNECTION_FLAGS,
  }),
  examples: ["svc job delete job-1f9c2a77 --yes"],
  async run({ args, flags, context }) {
    const id = args[0]!;
    const client = await connect(flags, context);
    if (!flags.yes && !context.interactive) {
      throw new UsageError(`Deleting job "${id}" cannot be undone`, "Add --yes.");
    }
    if (!flags.yes && !(await isSure(id))) throw new CliError("Nothing was deleted");
    const answer = await client.delete<{ message: string; deleted_cases: number }>(
      `/admin/api/jobs/${encodeURIComponent(id)}`,
    );
    const { deleted_cases: cases } = answer;
    const text = `Job ${id} was deleted with ${cases} ${cases === 1 ? "case" : "cases"}`;
    context.print(flags.json ? JSON.stringify(answer, null, 2) : text);
    return 0;
  },
});

async function isSure(id: string): Promise<boolean> {
  const { confirm } = await import("@clack/prompts");
  return (
    (await confirm({ message: `Delete job ${id}? This cannot be undone.`, initialValue: false })) === true
  );
}
