import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { defineCommand } from "../command.ts";
import { CliError, UsageError } from "../errors.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import { requestCommand } from "./request-command.ts";

/** `svc job delete`: deletes a job with everything that belongs to it. */
export const remove = defineCommand({
  usage: "delete <job>",
  summary: "Delete a job with its cases; a running one is stopped first",
  flags: v.object({
    permanently: option.flag("keep nothing of it, also of one that is deleted already"),
    yes: option.flag("do not ask for confirmation", { alias: "y" }),
    ...CONNECTION_FLAGS,
  }),
  examples: ["svc job delete job-1f9c2a77 --yes"],
  async run({ args, flags, context }) {
    const id = args[0]!;
    const client = await connect(flags, context);
    if (!flags.yes && !context.interactive) {
      throw new UsageError(`Job "${id}" would be deleted without a question`, "Add --yes.");
    }
    if (!flags.yes && !(await isSure(id, flags.permanently))) throw new CliError("Nothing was deleted");
    const answer = await client.delete<Answer>(
      `/admin/api/jobs/${encodeURIComponent(id)}${flags.permanently ? "?permanent=true" : ""}`,
    );
    // A service of an earlier version deletes permanently.
    const { deleted_cases: cases, restorable_until: until = null } = answer;
    const how = until === null ? " permanently" : "";
    const text = `Job ${id} was deleted${how} with ${cases} ${cases === 1 ? "case" : "cases"}`;
    context.print(flags.json ? JSON.stringify(answer, null, 2) : text);
    if (!flags.json && until !== null) context.print(`Until ${until}: svc job restore ${id}`);
    return 0;
  },
});

/** `svc job restore`: restores a deleted job. */
export const restore = requestCommand({
  usage: "restore <job>",
  summary: "Restore a deleted job with its cases, as it was",
  examples: ["svc job restore job-1f9c2a77"],
  ask: (client, { args }) =>
    client.post<{ id: string; status: string }>(
      `/admin/api/jobs/${encodeURIComponent(args[0]!)}/restore`,
      {},
    ),
  show: ({ id, status }) => `Job ${id} was restored: it is ${status}`,
});

interface Answer {
  readonly deleted_cases: number;
  readonly restorable_until?: string | null;
}

async function isSure(id: string, permanently: boolean): Promise<boolean> {
  const { confirm } = await import("@clack/prompts");
  const message = `Delete job ${id}${permanently ? " permanently? This cannot be undone." : "?"}`;
  return (await confirm({ message, initialValue: false })) === true;
}
