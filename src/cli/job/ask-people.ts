import * as v from "valibot";
import { needed, option } from "../../core/base/option.ts";
import { findQuestion } from "./answer.ts";
import { listCases } from "./list-cases.ts";
import { requestCommand } from "./request-command.ts";
import type { ServiceClient } from "./service-client.ts";

/** `svc job assign`: gives an open question to a person or role. */
export const assign = requestCommand({
  usage: "assign <job> [case]",
  summary: "Assign the open question of a job's case to a person or role",
  flags: { to: option.text("the person or role; without it, to nobody", "name") },
  examples: ["svc job assign job-1f9c2a77 --to finance"],
  ask: async (client, { args, flags }) =>
    client.post<{ case_id: string; assigned_to: string | null }>(`${await pathOf(client, args)}/assign`, {
      to: flags.to ?? null,
    }),
  show: ({ case_id, assigned_to }) =>
    `The question of case ${case_id} is assigned to ${assigned_to ?? "nobody"}`,
});

/** `svc job link`: a link with which one person answers an open question. */
export const link = requestCommand({
  usage: "link <job> [case]",
  summary: "Create a link with which one person answers a job's open question without a key",
  flags: {
    for: needed.text("the person who answers: the answer is recorded under this name", "name"),
    expiresIn: v.optional(needed.text("how long it works, up to 90d", "time"), "7d"),
    evidence: option.flag("show on its page what the steps of the case found"),
  },
  examples: ["svc job link job-1f9c2a77 --for Mira --expires-in 3d"],
  ask: async (client, { args, flags: { for: name, expiresIn: expires_in, evidence } }) =>
    client.post<{ path: string; url: string | null }>(`${await pathOf(client, args)}/links`, {
      ...{ name, expires_in, evidence },
    }),
  // Without a public address, it is the path on whatever address the person reaches the service at.
  show: ({ url, path }) => url ?? path,
});

/** The case with the open question that the arguments name. */
async function pathOf(client: ServiceClient, args: readonly string[]): Promise<string> {
  const [jobId, caseId] = args as [string, string | undefined];
  const { item } = findQuestion(await listCases(client, jobId, 0), jobId, caseId);
  return `/admin/api/cases/${encodeURIComponent(item.id)}`;
}
