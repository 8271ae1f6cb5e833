import type { Case } from "../../models/case.ts";
import type { ServiceClient } from "./service-client.ts";

/** As many as a service gives at once. */
const PAGE = 1000;

/** All cases of a job, oldest first. */
export async function listCases(client: ServiceClient, jobId: string): Promise<Case[]> {
  const cases: Case[] = [];
  for (;;) {
    const path = `/jobs/${encodeURIComponent(jobId)}/cases?limit=${PAGE}&skip=${cases.length}`;
    const page = await client.get<Case[]>(path);
    cases.push(...page);
    if (page.length < PAGE) return cases;
  }
}
