import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { defineCommand } from "../command.ts";
import { findQuestion } from "./answer.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import { listCases } from "./list-cases.ts";

const who = (what: string) => v.pipe(v.string(), v.description(what), v.metadata({ value: "name" }));

/** `svc job assign`: gives an open question to a person or role. */
export const assign = defineCommand({
  usage: "assign <job> [case]",
  summary: "Assign the open question of a job's case to a person or role",
  flags: v.object({
    to: v.optional(who("the person or role; without it, to nobody")),
    ...CONNECTION_FLAGS,
  }),
  examples: ["svc job assign job-1f9c2a77 --to finance"],
  async run({ args, flags, context }) {
    const [jobId, caseId] = args as [string, string | undefined];
    const client = await connect(flags, context);
    const { item } = findQuestion(await listCases(client, jobId, 0), jobId, caseId);
    const path = `/admin/api/cases/${encodeURIComponent(item.id)}/assign`;
    const answer = await client.post<{ assigned_to: string | null }>(path, { to: flags.to ?? null });
    const text = `The question of case ${item.id} is assigned to ${answer.assigned_to ?? "nobody"}`;
    context.print(flags.json ? JSON.stringify(answer, null, 2) : text);
    return 0;
  },
});

/** `svc job link`: a link with which one person answers an open question. */
export const link = defineCommand({
  usage: "link <job> [case]",
  summary: "Create a link with which one person answers a job's open question without a key",
  flags: v.object({
    for: who("the person who answers: the answer is recorded under this name"),
    expiresIn: v.optional(
      v.pipe(v.string(), v.description("how long it works, up to 90d"), v.metadata({ value: "time" })),
      "7d",
    ),
    evidence: option.flag("show on its page what the steps of the case found"),
    ...CONNECTION_FLAGS,
  }),
  examples: ["svc job link job-1f9c2a77 --for Mira --expires-in 3d"],
  async run({ args, flags, context }) {
    const [jobId, caseId] = args as [string, string | undefined];
    const client = await connect(flags, context);
    const { item } = findQuestion(await listCases(client, jobId, 0), jobId, caseId);
    const { for: name, expiresIn: expires_in, evidence } = flags;
    const path = `/admin/api/cases/${encodeURIComponent(item.id)}/links`;
    const answer = await client.post<{ path: string; url: string | null }>(path, {
      ...{ name, expires_in, evidence },
    });
    // Without a public address, it is the path on whatever address the person reaches the service at.
    context.print(flags.json ? JSON.stringify(answer, null, 2) : (answer.url ?? answer.path));
    return 0;
  },
});
