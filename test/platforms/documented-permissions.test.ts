// @long
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { FlowPlatform } from "./flow/clouds.ts";
import { FLOWS } from "./flow/clouds.ts";
import { openSite } from "./flow/site.ts";
import { runCommand } from "./killed/command.ts";
import { LIVES, livesOn, SETTINGS } from "./killed/life.ts";

const DOCS = readFileSync(new URL("../../docs/deploy-clouds.md", import.meta.url), "utf8");

/** Names of the calls that a service's commands make, from its first deployment to its removal. */
async function callsOf(flow: FlowPlatform): Promise<string[]> {
  const calls = new Set<string>();
  for (const life of livesOn(flow.name)) {
    const at = await openSite(flow, { real: false });
    try {
      for (const step of LIVES[life]!) {
        step.edit?.(at);
        const env = { ...at.env, SERVICE_API_KEY: step.apiKey };
        const flags = step.settings ? (SETTINGS[flow.name] ?? {}) : {};
        const command = { name: step.command, cwd: at.cwd, env, projectId: flow.projectId, flags };
        await runCommand(command, { ...flow, ...at.cloud });
      }
      for (const { name } of at.cloud.recorder.calls) calls.add(name);
    } finally {
      await at.close();
    }
  }
  return [...calls].sort();
}

function section(title: string): string {
  const from = DOCS.indexOf(`\n## ${title}`);
  const to = DOCS.indexOf("\n## ", from + 1);
  return DOCS.slice(from, to < 0 ? undefined : to);
}

const named = (text: string, prefixes: string) =>
  new Set(text.match(new RegExp(`(?<=")(${prefixes}):\\w+(?=")`, "g")));

/** What docker itself calls in a registry. */
const REGISTRY = "docker push, and docker pull for the cache of a build";

/** What a policy has besides the calls of these lives, and when it is called. */
const BESIDES: Readonly<Record<string, string>> = {
  "ecr:BatchCheckLayerAvailability": REGISTRY,
  "ecr:InitiateLayerUpload": REGISTRY,
  "ecr:UploadLayerPart": REGISTRY,
  "ecr:CompleteLayerUpload": REGISTRY,
  "ecr:PutImage": REGISTRY,
  "ecr:BatchGetImage": REGISTRY,
  "ecr:GetDownloadUrlForLayer": REGISTRY,
  "logs:FilterLogEvents": "svc deploy logs, and the log of a release that failed",
  "secretsmanager:RestoreSecret": "a secret that `down` removed less than seven days ago",
  "ecs:ListServices": "svc deploy list",
  "ecs:StopServiceDeployment": "a rollback while a deployment is under way",
  "ecs:UntagResource": "a label that deploy.yaml takes away",
  "apprunner:UntagResource": "a label that deploy.yaml takes away, and the oldest of the kept releases",
  "apprunner:ResumeService": "a service that `down --scale-to-zero` paused",
  "apprunner:DisassociateCustomDomain": "--domain none",
  "run.services.list": "svc deploy list",
  "run.services.getIamPolicy": "an organization that does not let the invoker check be switched off",
  "run.services.setIamPolicy": "an organization that does not let the invoker check be switched off",
  "artifactregistry.repositories.uploadArtifacts": REGISTRY,
  "artifactregistry.repositories.downloadArtifacts": REGISTRY,
  "resourcemanager.projects.get": "the number of the project, where the API that has it is disabled",
  "secretmanager.versions.access": "the key of a service, for its open jobs",
  "logging.logEntries.list": "svc deploy logs, and the log of a release that failed",
  "cloudbuild.builds.create": "--use-cloud-build",
  "cloudbuild.builds.get": "--use-cloud-build",
  "storage.objects.get": "--use-cloud-build",
  "storage.objects.create": "--use-cloud-build",
};

describe("the policy in the documentation allows every call of a deployment, and nothing that none makes", () => {
  it.each([
    ["aws-ecs-express", "AWS ECS Express Mode"],
    ["aws-app-runner", "AWS App Runner"],
  ])("on %s", async (name, title) => {
    const calls = await callsOf(FLOWS.find((flow) => flow.name === name)!);
    const common = [...named(section("AWS ECS Express Mode"), "sts|ecr|iam|secretsmanager|logs|s3")];
    const allowed = new Set([...common, ...named(section(title), "ecs|apprunner")]);

    const needed = calls.map((call) => S3[call] ?? call.replace(" ", ":"));
    // What else IAM asks for: with tags given at creation, and for roles that are handed on.
    const service = name === "aws-app-runner" ? "apprunner" : "ecs";
    const implied = ["ecr", "secretsmanager", service].map((prefix) => `${prefix}:TagResource`);

    const all = [...needed, ...implied, "iam:TagRole", "iam:PassRole", "iam:CreateServiceLinkedRole"];
    expect(calls.length).toBeGreaterThan(20);
    expect(all.filter((action) => !allowed.has(action))).toEqual([]);
    expect([...allowed].filter((action) => !all.includes(action) && !BESIDES[action])).toEqual([]);
  });

  it("on cloud-run", async () => {
    const calls = await callsOf(FLOWS.find((flow) => flow.name === "cloud-run")!);
    const allowed = new Set(section("Google Cloud Run").match(/(?<=^ {2}- )[\w.]+(?=(?: #.*)?$)/gm));

    const permissions = calls.map((call) => [call, permissionOf(call)] as const);

    expect(calls.length).toBeGreaterThan(20);
    expect(permissions.filter(([, permission]) => permission === undefined)).toEqual([]);
    expect(permissions.filter(([, permission]) => permission && !allowed.has(permission))).toEqual([]);
    const used = new Set(permissions.map(([, permission]) => permission));
    expect([...allowed].filter((permission) => !used.has(permission) && !BESIDES[permission])).toEqual([]);
  });
});

/** Calls to S3 whose permission has another name. */
const S3: Readonly<Record<string, string>> = {
  "s3 HeadBucket": "s3:ListBucket",
  "s3 PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
};

/** Google's calls and the permission each asks for; an empty one where it asks for none. */
const GOOGLE: readonly (readonly [RegExp, string])[] = [
  [/^serviceusage POST .*:batchEnable$/, "serviceusage.services.enable"],
  [/^serviceusage GET .*\/services/, "serviceusage.services.get"],
  [/^serviceusage GET .*\/operations\//, ""],
  [/:testIamPermissions$/, ""],
  [/^cloudresourcemanager GET /, "resourcemanager.projects.get"],
  [/^cloudbilling GET /, ""],
  [/^artifactregistry POST .*\/repositories$/, "artifactregistry.repositories.create"],
  [/^artifactregistry GET .*\/repositories\//, "artifactregistry.repositories.get"],
  [/^artifactregistry GET .*\/operations\//, ""],
  [/^storage POST .*\/b$/, "storage.buckets.create"],
  [/^storage GET .*\/iam$/, "storage.buckets.getIamPolicy"],
  [/^storage PUT .*\/iam$/, "storage.buckets.setIamPolicy"],
  [/^storage GET .*\/b\//, "storage.buckets.get"],
  [/^secretmanager POST .*:setIamPolicy$/, "secretmanager.secrets.setIamPolicy"],
  [/^secretmanager GET .*:getIamPolicy$/, "secretmanager.secrets.getIamPolicy"],
  [/^secretmanager POST .*:addVersion$/, "secretmanager.versions.add"],
  [/^secretmanager GET .*\/versions\/.*:access$/, "secretmanager.versions.access"],
  [/^secretmanager GET .*\/versions\//, "secretmanager.versions.get"],
  [/^secretmanager POST .*\/secrets$/, "secretmanager.secrets.create"],
  [/^secretmanager GET .*\/secrets$/, "secretmanager.secrets.list"],
  [/^secretmanager GET .*\/secrets\//, "secretmanager.secrets.get"],
  [/^secretmanager PATCH /, "secretmanager.secrets.update"],
  [/^secretmanager DELETE /, "secretmanager.secrets.delete"],
  [/^run GET .*\/locations$/, "run.locations.list"],
  [/^run (GET|POST) .*\/operations\//, "run.operations.get"],
  [/^run GET .*\/revisions$/, "run.revisions.list"],
  [/^run GET .*\/revisions\//, "run.revisions.get"],
  [/^run GET .*:getIamPolicy$/, "run.services.getIamPolicy"],
  [/^run POST .*:setIamPolicy$/, "run.services.setIamPolicy"],
  [/^run POST .*\/services$/, "run.services.create"],
  [/^run GET .*\/services$/, "run.services.list"],
  [/^run GET .*\/services\//, "run.services.get"],
  // Google has no permission for them: only a role of the whole project includes them.
  [/^run \w+ .*\/(domainmappings|authorizeddomains)/, ""],
  [/^run PATCH /, "run.services.update"],
  [/^run DELETE /, "run.services.delete"],
  [/^logging POST .*entries:list$/, "logging.logEntries.list"],
];

function permissionOf(call: string): string | undefined {
  return GOOGLE.find(([pattern]) => pattern.test(call))?.[1];
}
