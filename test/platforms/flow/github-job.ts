import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Runner } from "./ci-runner.ts";
import { stepsOf } from "./ci-runner.ts";
import type { Ended } from "./user.ts";

type Values = Readonly<Record<string, string>>;

/** What a job is started with. */
export interface GithubJob {
  readonly workflow: string;
  readonly name: string;
  /** Folder that is cloned. */
  readonly from: string;
  /** Values of its expressions. */
  readonly values: Values;
  /** Number of the pull request. */
  readonly number?: number;
  readonly api?: string;
  /** Where Google exchanges tokens. */
  readonly google: string;
}

/** Runs a job of a workflow: its `run` lines in a shell; actions as they describe themselves. */
export async function runGithubJob(runner: Runner, job: GithubJob): Promise<Ended> {
  const cwd = await runner.clone(job.from);
  const event = `${cwd}.event.json`;
  writeFileSync(
    event,
    JSON.stringify(job.number === undefined ? {} : { pull_request: { number: job.number } }),
  );
  let env: Values = {
    GITHUB_ACTIONS: "true",
    GITHUB_REPOSITORY: "acme/agents",
    GITHUB_EVENT_PATH: event,
    ...(job.api ? { GITHUB_API_URL: job.api } : {}),
  };
  const told: Ended = { code: 0, stdout: "", stderr: "" };
  let all = told;
  for (const step of stepsOf(job.workflow, job.name, job.values)) {
    if (step.uses?.startsWith("google-github-actions/auth@")) {
      env = { ...env, ...signIn(cwd, step.with ?? {}, job) };
      continue;
    }
    if (step.run === undefined) continue;
    const ended = await runner.shell(cwd, step.run, { ...env, ...step.env });
    all = { code: ended.code, stdout: all.stdout + ended.stdout, stderr: all.stderr + ended.stderr };
    if (ended.code !== 0) break;
  }
  return all;
}

/** What the action leaves behind: credentials of an external account, in the workspace. */
function signIn(cwd: string, given: Values, { google, api, values }: GithubJob): Values {
  const path = join(cwd, "gha-creds-0123456789abcdef.json");
  writeFileSync(
    path,
    JSON.stringify({
      type: "external_account",
      audience: `//iam.googleapis.com/${given.workload_identity_provider}`,
      subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
      token_url: `${google}v1/token`,
      service_account_impersonation_url: `${google}v1/projects/-/serviceAccounts/${given.service_account}:generateAccessToken`,
      credential_source: {
        url: `${api}/identity?audience=x`,
        headers: { authorization: `Bearer ${values["github.token"]}` },
        format: { type: "json", subject_token_field_name: "value" },
      },
    }),
  );
  return { GOOGLE_APPLICATION_CREDENTIALS: path, GOOGLE_CLOUD_PROJECT: given.project_id ?? "" };
}
