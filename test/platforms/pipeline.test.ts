// @long
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { ownVariable } from "../../src/deploy/ci/pipeline.ts";
import { shortName } from "../../src/deploy/ci/short-name.ts";
import { gitlabJob, openCodeHost, openRunner } from "./flow/ci-runner.ts";
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
        [`vars.${ownVariable({ name: site.name, environment: "dev" }, "SVC_GOOGLE_PROVIDER")}`]:
          "projects/1/locations/global/workloadIdentityPools/svc-github/providers/x",
        [`vars.${ownVariable({ name: site.name, environment: "preview-" }, "SVC_GOOGLE_PROVIDER")}`]:
          "projects/1/locations/global/workloadIdentityPools/svc-github/providers/x",
        "github.token": "token-of-the-job",
        "github.head_ref": "feat/Login",
        ...values,
      },
      google: cloud.env.CLOUDSDK_API_ENDPOINT_OVERRIDES_STS ?? "",
    });
  const federation = (right: string) =>
    Object.assign(cloud.state, {
      federation: {
        subject: "a token of the code host",
        audience:
          "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/svc-github/providers/x",
        account: `${shortName(site.name, 20)}-${right}@demo-project.iam.gserviceaccount.com`,
      },
    });

  federation("deploy");
  const stranger = await job("plan");
  federation("plan");
  const planned = await job("plan");
  expect(planned.code, planned.stderr).toBe(0);
  const again = await job("plan");
  expect(again.stderr).toContain("The comment with the plan was updated");
  federation("deploy");
  const deployed = await job("deploy");
  expect(deployed.code, deployed.stderr).toBe(0);
  federation("preview");
  const preview = await job("preview");
  expect(preview.code, preview.stderr).toBe(0);
  const second = await job("preview");
  Object.assign(cloud.state, { federation: undefined });
  const listed = JSON.parse((await user.svc(["deploy", "list", "--json"])).stdout);
  federation("preview");
  const expired = await job("expired-previews");
  const removed = await job("remove-preview");

  // An account of another right is not given to this job.
  expect(stranger).toMatchObject({
    code: 5,
    stderr: expect.stringContaining("No usable Google credentials"),
  });
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

it("the lines of the GitLab pipeline deploy with a token that becomes a role, and no key", async () => {
  const flow = FLOWS.find(({ name }) => name === "aws-ecs-express")!;
  await using site = await openUserSite(flow, project, { containers: false });
  const { user, cloud } = site;
  const host = await openCodeHost("a-project-token");
  onTestFinished(() => host.close());
  await run("git", ["remote", "set-url", "origin", "git@gitlab.com:acme/agents.git"], { cwd: user.cwd });
  user.write("deploy.yaml", SETTINGS(flow.name, site.name, "region: us-east-1\n"));
  const made = await user.svc(["deploy", "ci", "gitlab"]);
  expect(made.code, made.stderr).toBe(0);
  await commit(user.cwd, "a pipeline");
  const file = readFileSync(join(user.cwd, ".gitlab-ci.yml"), "utf8");
  const runner = openRunner(site.home, project.packages, user.env);
  const job = async (name: string, right: string) => {
    Object.assign(cloud.state, {
      federation: { token: "signed", role: `arn:aws:iam::123456789012:role/pipeline.${site.name}.${right}` },
    });
    const { script, env } = gitlabJob(file, name, {
      GITLAB_CI: "true",
      CI_API_V4_URL: host.url,
      CI_PROJECT_ID: "42",
      CI_MERGE_REQUEST_IID: "7",
      CI_MERGE_REQUEST_SOURCE_BRANCH_NAME: "login",
      CI_JOB_ID: "1",
      SVC_COMMENT_TOKEN: "a-project-token",
      ...Object.fromEntries(
        ["dev", "preview-"].map((environment) => [
          ownVariable({ name: site.name, environment }, "SVC_AWS_ACCOUNT"),
          "123456789012",
        ]),
      ),
      SVC_ID_TOKEN: "signed",
    });
    return runner.shell(await runner.clone(user.cwd), script, env);
  };

  const stranger = await job("deploy", "plan");
  const planned = await job("plan", "plan");
  const deployed = await job("deploy", "deploy");
  const removed = await job("remove-preview", "preview");

  expect(stranger.code).not.toBe(0);
  expect(stranger.stderr).toContain("AssumeRoleWithWebIdentity");
  expect(planned.code, planned.stderr).toBe(0);
  expect(host.comments[0]?.body).toContain(`### Plan for \`${site.name}-dev\` on aws-ecs-express`);
  expect(deployed.code, deployed.stderr).toBe(0);
  expect(deployed.stdout).toContain(`${site.name}-dev is up and healthy`);
  expect(removed.stdout).toContain("preview-login does not exist: nothing to remove");
  expect(cloud.recorder.violations).toEqual([]);
}, 300_000);
