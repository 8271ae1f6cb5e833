import type { Case } from "../../core/models/case.ts";
import type { ServiceClient } from "./service-client.ts";

/** The largest page of the service. */
const PAGE = 1000;

/** All cases of a job, oldest first, each with as many of its newest updates, at most 1000. */
export function listCases(client: ServiceClient, jobId: string, updates: number): Promise<Case[]> {
  const path = `/jobs/${encodeURIComponent(jobId)}/cases?limit=${PAGE}&updates=${updates}`;
  return readPages<Case>(client, path, PAGE);
}

/** All pages of a list; the path names their size. */
export async function readPages<T>(client: ServiceClient, path: string, size: number): Promise<T[]> {
  const all: T[] = [];
  for (;;) {
    const page = await client.get<T[]>(`${path}&skip=${all.length}`);
    all.push(...page);
    if (page.length < size) return all;
  }
}
