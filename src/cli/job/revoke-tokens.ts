import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";

/** `svc job revoke-tokens`: ends the tokens with which browsers use a job. */
export const revokeTokens = defineCommand({
  usage: "revoke-tokens <job>",
  summary: "Revoke the tokens of a job that browsers have; their streams end",
  flags: v.object({
    name: option.text("only those that were made for this user"),
    ...CONNECTION_FLAGS,
  }),
  examples: ["svc job revoke-tokens job-1f9c2a77", "svc job revoke-tokens job-1f9c2a77 --name Ada"],
  async run({ args, flags, context }) {
    const id = args[0]!;
    const client = await connect(flags, context);
    const query = flags.name === undefined ? "" : `?name=${encodeURIComponent(flags.name)}`;
    const answer = await client.delete(`/jobs/${encodeURIComponent(id)}/tokens${query}`);
    const whose = flags.name === undefined ? "All tokens" : `The tokens of ${flags.name}`;
    const text = `${whose} of job ${id} that were made so far no longer count`;
    context.print(flags.json ? JSON.stringify(answer, null, 2) : text);
    return 0;
  },
});
