import type { Case } from "../../core/models/case.ts";
import type { ServiceClient } from "./service-client.ts";

/** The largest page of the service. */
const PAGE = 1000;

/** All cases of a job, oldest first, each with as many of its newest updates, at most 1000. */
export async function listCases(client: ServiceClient, jobId: string, updates: number): Promise<Case[]> {
  const cases: Case[] = [];
  for (;;) {
    const path = `/jobs/${encodeURIComponent(jobId)}/cases?limit=${PAGE}&skip=${cases.length}&updates=${updates}`;
    const page = await client.get<Case[]>(path);
    cases.push(...page);
    if (page.length < PAGE) return cases;
  }
}
