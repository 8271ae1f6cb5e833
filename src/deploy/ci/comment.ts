import { readFile } from "node:fs/promises";
import { DeployError } from "../errors.ts";
import { reach } from "../network.ts";
import type { DeployTools } from "../tools.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** Where a job's code host keeps the comments of its change. */
interface Thread {
  /** URL of the list of comments. */
  readonly list: string;
  /** URL of one comment. */
  one(id: number): string;
  readonly headers: Readonly<Record<string, string>>;
  readonly update: "PATCH" | "PUT";
}

interface Comment {
  readonly id: number;
  readonly body?: string;
}

/** Comments of a page. */
const PAGE = 100;

/**
 * Writes a comment on the change that the current job is about, or updates the one that has the same mark. Resolves
 * with `written`, `updated`, or why it could not be written.
 */
export async function putComment(
  { mark, text }: { readonly mark: string; readonly text: string },
  tools: Pick<DeployTools, "env" | "fetch" | "signal">,
): Promise<"written" | "updated" | { readonly skipped: string }> {
  const thread = await findThread(tools.env);
  if ("skipped" in thread) return thread;
  const line = `<!-- ${mark} -->`;
  const call = async <T>(method: string, url: string, body?: object): Promise<T> => {
    const init = {
      method,
      headers: { ...thread.headers, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    };
    const { ok, status, answer } = await reach(tools, url, init, async (response) => ({
      ...{ ok: response.ok, status: response.status, answer: await response.text() },
    }));
    if (ok) return JSON.parse(answer) as T;
    throw new DeployError("failed", "The plan could not be written as a comment", {
      detail: `${method} ${new URL(url).pathname}: ${status} ${answer.slice(0, 300)}`,
      fix: "Let the job write comments: permissions pull-requests: write on GitHub, SVC_COMMENT_TOKEN with the scope api on GitLab",
    });
  };
  const body = { body: `${line}\n${text}` };
  for (let page = 1; ; page++) {
    const found = await call<Comment[]>("GET", `${thread.list}?per_page=${PAGE}&page=${page}`);
    const mine = found.find((one) => one.body?.startsWith(line));
    if (mine !== undefined) {
      await call(thread.update, thread.one(mine.id), body);
      return "updated";
    }
    if (found.length < PAGE) break;
  }
  await call("POST", thread.list, body);
  return "written";
}

async function findThread(env: Env): Promise<Thread | { readonly skipped: string }> {
  if (env.GITHUB_ACTIONS) {
    const number = await pullRequest(env.GITHUB_EVENT_PATH);
    if (number === undefined) return { skipped: "this job is not about a pull request" };
    if (!env.GITHUB_TOKEN) return { skipped: "GITHUB_TOKEN is not set: give it to the step" };
    const base = `${env.GITHUB_API_URL ?? "https://api.github.com"}/repos/${env.GITHUB_REPOSITORY}/issues`;
    return {
      list: `${base}/${number}/comments`,
      one: (id) => `${base}/comments/${id}`,
      headers: { authorization: `Bearer ${env.GITHUB_TOKEN}`, accept: "application/vnd.github+json" },
      update: "PATCH",
    };
  }
  if (env.GITLAB_CI) {
    if (!env.CI_MERGE_REQUEST_IID) return { skipped: "this job is not about a merge request" };
    if (!env.SVC_COMMENT_TOKEN) return { skipped: "SVC_COMMENT_TOKEN is not set" };
    const base = `${env.CI_API_V4_URL}/projects/${env.CI_PROJECT_ID}/merge_requests/${env.CI_MERGE_REQUEST_IID}/notes`;
    return {
      list: base,
      one: (id) => `${base}/${id}`,
      headers: { "private-token": env.SVC_COMMENT_TOKEN },
      update: "PUT",
    };
  }
  throw new DeployError("usage", "--comment works in a job of GitHub or GitLab", {
    outcome: "No comment was written",
    fix: "Without it, --markdown prints the same text",
  });
}

async function pullRequest(path: string | undefined): Promise<number | undefined> {
  if (path === undefined) return undefined;
  const event = JSON.parse(await readFile(path, "utf8")) as {
    readonly number?: number;
    readonly pull_request?: { readonly number?: number };
  };
  return event.pull_request?.number;
}
