import { option } from "../../core/base/option.ts";
import { requestCommand } from "./request-command.ts";

/** `svc job revoke-tokens`: ends the tokens with which browsers use a job. */
export const revokeTokens = requestCommand({
  usage: "revoke-tokens <job>",
  summary: "Revoke the tokens of a job that browsers have; their streams end",
  flags: { name: option.text("only those that were made for this user") },
  examples: ["svc job revoke-tokens job-1f9c2a77", "svc job revoke-tokens job-1f9c2a77 --name Ada"],
  ask(client, { args, flags }) {
    const query = flags.name === undefined ? "" : `?name=${encodeURIComponent(flags.name)}`;
    return client.delete(`/jobs/${encodeURIComponent(args[0]!)}/tokens${query}`);
  },
  show(_, { args, flags }) {
    const whose = flags.name === undefined ? "All tokens" : `The tokens of ${flags.name}`;
    return `${whose} of job ${args[0]} that were made so far no longer count`;
  },
});
