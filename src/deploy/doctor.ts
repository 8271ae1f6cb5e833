import { messageOf } from "../core/base/error-text.ts";
import { describeStorageUrl } from "../core/storage/storage-url.ts";
import { type Deployment, stateKey } from "./deployment.ts";
import { findDocker } from "./docker.ts";
import { isDeployError } from "./errors.ts";
import { effectiveConfig } from "./kept.ts";
import { readLock } from "./lock.ts";
import { diskFindings } from "./plan.ts";
import type { Finding } from "./platform.ts";
import { readProject } from "./project.ts";
import { standing } from "./standing.ts";
import { stateBase } from "./state.ts";
import { storageFindings } from "./storage.ts";
import type { DeployTools } from "./tools.ts";

/**
 * Checks everything that a deployment needs, one by one; changes nothing and does not stop at the first
 * error.
 */
export async function doctor(deployment: Deployment): Promise<Finding[]> {
  const { session, tools, target, platform, journal, options } = deployment;
  const findings: Finding[] = [
    ...(await machineFindings({
      tools,
      cwd: target.cwd,
      options,
      ...(session.build ? { builds: platform.name } : {}),
    })),
    ...(await tryFinding(platform.name, () => session.preflight())),
    ...(await storeFindings(deployment)),
  ];
  const lock = readLock(`${stateBase(stateKey(deployment))}.lock`);
  if (lock !== undefined)
    findings.push({
      level: "warning",
      subject: "Lock",
      message: `held by ${lock.holder} since ${lock.since}`,
    });
  if (journal.unfinished.length > 0)
    findings.push({
      level: "warning",
      subject: "Unfinished run",
      message: standing(journal),
      fix: "Run svc deploy up again: it continues where that run stopped",
    });
  return findings;
}

async function storeFindings(deployment: Deployment): Promise<Finding[]> {
  const { session, platform } = deployment;
  const live = await session.inspect().catch(() => undefined);
  const stored = await session.listSecrets().catch(() => []);
  return tryFinding("Store", async () => {
    const { store, storage, environment, secrets, keptSecrets } = await effectiveConfig(
      deployment,
      live,
      stored,
    );
    const disk = diskFindings(deployment, store);
    if (storage === undefined) return disk;
    const secretNames = [...keptSecrets, ...[...secrets, ...stored].map(({ name }) => name)];
    const bucket = storageFindings(storage, { platform, session, secretNames, env: environment });
    if (bucket.length > 0) return bucket;
    return [{ level: "ok", subject: "Bucket", message: describeStorageUrl(storage) }];
  });
}

/** Checks that need only this machine and the project, not a platform. */
export async function machineFindings({
  tools,
  cwd,
  options,
  builds,
}: {
  readonly tools: DeployTools;
  readonly cwd: string;
  readonly options: { readonly sourceDir?: string; readonly controllerFile?: string };
  /** What builds the image, if not this machine. */
  readonly builds?: string;
}): Promise<Finding[]> {
  return [
    { level: "ok", subject: "Node", message: process.version },
    ...(builds === undefined
      ? await dockerFindings(tools)
      : [{ level: "ok" as const, subject: "Build", message: `on ${builds}` }]),
    ...(await tryFinding("Project", () => projectFindings(cwd, options))),
  ];
}

async function projectFindings(
  cwd: string,
  options: { readonly sourceDir?: string; readonly controllerFile?: string },
): Promise<Finding[]> {
  const { packageManager, controller, lockFile } = await readProject(cwd, options);
  const project: Finding = {
    level: "ok",
    subject: "Project",
    message: `${packageManager}, starts ${controller}`,
  };
  if (lockFile !== undefined) return [project];
  return [
    project,
    {
      level: "warning",
      subject: "Lock file",
      message: "there is none, so each build may get different versions",
      fix: `Run ${packageManager} install and commit the lock file`,
    },
  ];
}

/** What is installed of Docker. */
async function dockerFindings(tools: DeployTools): Promise<Finding[]> {
  return tryFinding("Docker", async () => {
    const docker = await findDocker(tools);
    const builder = docker.buildx ? "buildx" : "the plain builder";
    const compose = docker.compose?.join(" ");
    return [
      { level: "ok", subject: "Docker", message: `engine ${docker.version}, ${builder}` },
      compose === undefined
        ? {
            level: "warning",
            subject: "Compose",
            message: "neither docker compose nor docker-compose is installed; svc deploy local needs one",
            fix: "Install the Docker compose plugin: https://docs.docker.com/compose/install/",
          }
        : { level: "ok", subject: "Compose", message: compose },
    ];
  });
}

async function tryFinding(subject: string, look: () => Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await look();
  } catch (error) {
    if (isDeployError(error) && error.code === "interrupted") throw error;
    const fix = isDeployError(error) ? error.fix : undefined;
    const message = messageOf(error);
    return [{ level: "error", subject, message, ...(fix ? { fix } : {}) }];
  }
}
