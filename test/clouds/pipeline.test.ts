import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { openCodeHost, openRunner } from "./flow/ci-runner.ts";
import { FLOWS } from "./flow/clouds.ts";
import { runGithubJob } from "./flow/github-job.ts";
import type { Project } from "./flow/project.ts";
import { commit, newProject } from "./flow/project.ts";
import { openUserSite } from "./flow/user-site.ts";

const run = promisify(execFile);

let project: Project;
beforeAll(async () => {
  project = await newProject();
}, 180_000);
afterAll(() => project[Symbol.asyncDispose]());

const SETTINGS = (platform: string, name: string, more: string) => `platform: ${platform}
name: ${name}
${more}generateApiKey: true
environments:
  dev: {}
  preview-*: {}
`;

it("the lines of the GitHub workflow deploy, plan, preview and remove, from fresh clones", async () => {
  const flow = FLOWS.find(({ name }) => name === "cloud-run")!;
  await using site = await openUserSite(flow, project, { containers: false });
  const { user, cloud } = site;
  const host = await openCodeHost("token-of-the-job");
  onTestFinished(() => host.close());
  await run("git", ["remote", "set-url", "origin", "git@github.com:acme/agents.git"], { cwd: user.cwd });
  user.write("deploy.yaml", SETTINGS(flow.name, site.name, "region: us-central1\nprojectId: demo-project\n"));

  const made = await user.svc(["deploy", "ci", "github"]);
  expect(made.code, made.stderr).toBe(0);
  await commit(user.cwd, "a pipeline");
  const workflow = readFileSync(join(user.cwd, ".github/workflows/deploy.yml"), "utf8");
  const runner = openRunner(site.home, project.packages, user.env);
  const job = (name: string, values: Record<string, string> = {}) =>
    runGithubJob(runner, {
      workflow,
      name,
      from: user.cwd,
      number: 7,
      api: host.url,
      values: {
        "vars.SVC_GOOGLE_PROVIDER":
          "projects/1/locations/global/workloadIdentityPools/svc-github/providers/x",
        "github.token": "token-of-the-job",
        "github.head_ref": "feat/Login",
        ...values,
      },
      tokens: {
        url: `${cloud.env.CLOUDSDK_API_ENDPOINT_OVERRIDES_STS}v1/token`,
        subject: "a token of the code host",
      },
    });

  const planned = await job("plan");
  expect(planned.code, planned.stderr).toBe(0);
  const again = await job("plan");
  expect(again.stderr).toContain("The comment with the plan was updated");
  const deployed = await job("deploy");
  expect(deployed.code, deployed.stderr).toBe(0);
  const preview = await job("preview");
  expect(preview.code, preview.stderr).toBe(0);
  const second = await job("preview");
  const listed = JSON.parse((await user.svc(["deploy", "list", "--json"])).stdout);
  const expired = await job("expired-previews");
  const removed = await job("remove-preview");

  expect(host.comments).toHaveLength(1);
  expect(host.comments[0]?.body).toMatch(new RegExp(`^<!-- svc deploy plan ${site.name}-dev -->\\n### Plan`));
  expect(host.comments[0]?.body).toContain("| **CREATE** | service |");
  expect(deployed.stdout).toContain(`${site.name}-dev is up and healthy`);
  expect(preview.stdout).toMatch(new RegExp(`${site.name}-preview-feat-login-\\w{5} is up and healthy`));
  expect(second.stdout).toContain("there was nothing to deploy");
  const [dev, other] = listed.environments;
  expect(dev).toMatchObject({ environment: "dev", health: "healthy", expires: null });
  expect(other).toMatchObject({
    environment: expect.stringMatching(/^preview-feat-login/),
    health: "healthy",
  });
  expect(Date.parse(other.expires)).toBeGreaterThan(Date.now());
  expect(expired, expired.stderr).toMatchObject({ code: 0, stdout: "No environment was removed.\n" });
  expect(removed.stdout).toMatch(/preview-feat-login-\w{5} was removed/);
  const { stdout: left } = await run("git", ["status", "--porcelain"], { cwd: user.cwd });
  expect(left).toBe("");
  expect(cloud.recorder.violations).toEqual([]);
}, 300_000);
