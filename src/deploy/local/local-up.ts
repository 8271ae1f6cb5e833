import { join } from "node:path";
import { packContext } from "../build-context.ts";
import { guardCode } from "../check-code.ts";
import { checkContext, sizeOf } from "../context-findings.ts";
import { buildImage, type Docker, findDocker } from "../docker.ts";
import { DeployError } from "../errors.ts";
import { step } from "../events.ts";
import { type FileOutcome, ignoreFolder, writeFiles } from "../files.ts";
import { waitHealthy } from "../health.ts";
import { imageFiles } from "../image-files.ts";
import { reach } from "../network.ts";
import { HEALTH_PATH } from "../plan.ts";
import { readProject } from "../project.ts";
import { superseded } from "../serving.ts";
import { renderTemplates } from "../templates.ts";
import { checkPort } from "./free-port.ts";
import { checkDatabasePackage, findDatabase, type LocalDatabase } from "./local-database.ts";
import type { LocalRun } from "./local-run.ts";
import { gatherLocalSecrets, type LocalSecrets, localSecretNames } from "./local-secrets.ts";
import { checkOwnFiles } from "./own-files.ts";

export interface EndpointCheck {
  readonly path: string;
  readonly status: number;
  readonly ok: boolean;
  readonly note?: string;
}

export interface LocalOutcome {
  readonly files: readonly FileOutcome[];
  /** Absent if only the files were requested. */
  readonly service?: {
    readonly url: string;
    readonly image: string;
    /** Containers of the service. */
    readonly instances: number;
    readonly endpoints: readonly EndpointCheck[];
    /** The key that was generated for this test; a key that the user set is not shown. */
    readonly apiKey: string | undefined;
    /** Where the key is that was not generated here: the user has set it, or the service has generated it. */
    readonly keyIs: "set" | "in the container" | undefined;
    readonly rsaKeyGenerated: boolean;
  };
}

/** Seconds for a build on a slow connection. */
const BUILD_TIMEOUT = 900;
/** Label of the image: the hash of the files that it was built from. */
const CONTEXT = "agent-control-service.context";
const LOG_LINES = "25";

/**
 * Builds the service and runs it in containers on this machine; a repeated call updates the running one. With `self`, the
 * program and arguments that run svc again, code that cannot be loaded ends it before the build.
 */
export async function localUp(run: LocalRun, self?: readonly string[]): Promise<LocalOutcome> {
  const { options, emit, tools, limits } = run;
  const project = await readProject(run.cwd, options);
  const docker = options.filesOnly
    ? undefined
    : await step(emit, "runtime", ({ note }) => checkRuntime(run, note));

  if (!options.filesOnly) await checkOwnFiles(run);
  const database = await findDatabase(run);
  if (database) checkDatabasePackage(project);
  const secretNames = await localSecretNames(run, database);
  const variables = localEnv(run, database);
  if (!options.filesOnly)
    await guardCode(run, {
      ...{ self, cwd: run.cwd, file: project.controller, variables, secrets: secretNames },
      outcome: "Nothing was built or started",
    });
  const files = await renderTemplates({
    project,
    name: run.name,
    serviceName: run.serviceName,
    port: options.port,
    localImage: run.image,
    imageTag: "local-test",
    env: variables,
    secretNames,
    database,
    baseImage: options.baseImage,
    apt: options.apt,
  });
  const outcomes = await step(emit, "files", async ({ note }) => {
    const written = await writeFiles(run.cwd, files, () => options.overwriteFiles);
    await ignoreFolder(run.cwd);
    const kept = written.filter(({ outcome }) => outcome === "kept").map(({ file }) => file);
    if (database && kept.includes("docker-compose.yml") && options.instances !== undefined)
      throw new DeployError("usage", "--instances has no effect: .deployment/docker-compose.yml was edited", {
        outcome: "Nothing was built",
        fix: "Change the file itself, or add --overwrite-files",
      });
    note(kept.length > 0 ? `kept unchanged: ${kept.join(", ")}` : ".deployment/");
    return written;
  });
  if (docker === undefined) return { files: outcomes };

  const secrets = await step(emit, "localSecrets", async ({ note, skip }) => {
    const gathered = await gatherLocalSecrets(run, database);
    const names = Object.keys(gathered.values);
    if (names.length === 0) skip("there are none");
    else note(names.join(", "));
    return gathered;
  });
  const hash = await step(emit, "build", async ({ note }) => {
    const context = await packContext(project, await imageFiles(run.cwd, files, run));
    const tooLong = () =>
      new DeployError("build_failed", `The image was not ready within ${BUILD_TIMEOUT} s`, {
        fix: `Check ${run.log.path} for what is slow`,
      });
    const secretFiles = project.secretFiles.map((file) => join(project.root, file));
    checkContext(context, emit);
    await limits.within(BUILD_TIMEOUT, tooLong, () =>
      buildImage(tools, docker, {
        tar: context.tar(),
        ref: run.image,
        labels: { [CONTEXT]: context.hash },
        secretFiles,
      }),
    );
    note(`${run.image}, from ${sizeOf(context)}`);
    return context.hash;
  });
  await step(emit, "start", () => compose(run, docker, secrets, ["up", "--detach", "--remove-orphans"]));
  const count = database?.instances.length ?? 1;
  await step(emit, "health", ({ note }) => waitForStart(run, count, note));
  const endpoints = await step(emit, "endpoints", ({ note }) => checkEndpoints(run, secrets, note));
  await confirmContainers(run, hash, count);
  const key = secrets.values.SERVICE_API_KEY;
  return {
    files: outcomes,
    service: {
      url: run.url,
      image: run.image,
      instances: count,
      endpoints,
      apiKey: secrets.generated.includes("SERVICE_API_KEY") ? key : undefined,
      keyIs: secrets.generated.includes("SERVICE_API_KEY")
        ? undefined
        : key === undefined
          ? "in the container"
          : "set",
      rsaKeyGenerated: secrets.generated.includes("SERVICE_RSA_PRIVATE_KEY"),
    },
  };
}

async function checkRuntime(run: LocalRun, note: (text: string) => void): Promise<Docker> {
  const docker = await findDocker(run.tools);
  if (docker.compose === undefined)
    throw new DeployError("preflight", "Neither docker compose nor docker-compose is installed", {
      fix: "Install the Docker compose plugin: https://docs.docker.com/compose/install/",
    });
  await checkPort(run);
  note(`Docker ${docker.version}, ${docker.compose.join(" ")}, port ${run.options.port}`);
  return docker;
}

function localEnv(
  { config, options, url }: LocalRun,
  database: LocalDatabase | undefined,
): Record<string, string> {
  return {
    ...(database && { SERVICE_TRUST_PROXY: "1" }),
    ...config.environment,
    SERVICE_HOST: "0.0.0.0",
    SERVICE_PORT: String(options.port),
    SERVICE_ENVIRONMENT: options.env,
    SERVICE_PUBLIC_URL: config.environment.SERVICE_PUBLIC_URL ?? url,
  };
}

async function compose(
  { tools, project, cwd }: LocalRun,
  docker: Docker,
  secrets: LocalSecrets,
  args: readonly string[],
): Promise<void> {
  const [command = "docker", ...before] = docker.compose ?? [];
  const file = join(cwd, ".deployment", "docker-compose.yml");
  // The values reach the containers through this process's environment: never an argument, never the file.
  const result = await tools.exec(command, [...before, "--project-name", project, "--file", file, ...args], {
    env: { ...secrets.values },
  });
  if (result.code === 0) return;
  const lines = result.stderr.trim().split("\n");
  throw new DeployError("failed", "The containers were not started", {
    detail: lines.at(-1),
    log: lines.slice(-10),
    fix: "Fix .deployment/docker-compose.yml, or delete it to regenerate it",
  });
}

/** One good answer from each instance: the proxy asks them in turn. */
async function waitForStart(run: LocalRun, count: number, note: (text: string) => void): Promise<void> {
  const { tools, options, url, limits } = run;
  const died = new AbortController();
  const watch = watchContainer(run, died);
  try {
    const health = await Promise.race([
      watch.died,
      limits.within(
        options.timeout + 15,
        () => new DeployError("unhealthy", `The service did not respond within ${options.timeout} s`),
        () =>
          waitHealthy({
            tools,
            endpoints: [`${url}${HEALTH_PATH}`],
            firstWait: 0,
            interval: 2,
            config: {
              timeout: options.timeout,
              base_delay: 0.25,
              backoff_multiplier: 1.5,
              success_threshold: count,
            },
            onCheck: ({ status, error_message }) => {
              if (status !== "healthy") tools.report(error_message ?? status);
            },
          }),
      ),
    ]);
    if (health.status === "healthy") return note(`200, ${health.response_time} s`);
    throw new DeployError("unhealthy", `The service did not become healthy within ${options.timeout} s`, {
      detail: `${health.endpoint}: ${health.error_message}`,
      log: await containerLogs(run),
      outcome:
        'Its container is left running so that you can inspect it; "svc deploy local --stop" removes it',
      fix: "Fix the cause, or allow more time with --timeout",
    });
  } finally {
    watch.stop();
  }
}

/** A container that exited will not become healthy: there is no need to wait for the timeout. */
function watchContainer(run: LocalRun, stopped: AbortController) {
  const look = async (): Promise<never> => {
    for (;;) {
      await run.tools.sleep(1000);
      if (stopped.signal.aborted) return new Promise<never>(() => undefined);
      const format = "{{.State}}";
      const filter = `label=com.docker.compose.project=${run.project}`;
      const result = await run.tools.exec("docker", ["ps", "--all", "--filter", filter, "--format", format]);
      if (result.code !== 0 || !/^(exited|dead)$/m.test(result.stdout)) continue;
      throw new DeployError("unhealthy", "The service exited right after its start", {
        log: await containerLogs(run),
        outcome: 'Its container is left so that you can inspect it; "svc deploy local --stop" removes it',
        fix: "The lines above are from its log: fix what they report",
      });
    }
  };
  const died = look();
  // The health check may finish first.
  died.catch(() => undefined);
  return { died, stop: () => stopped.abort() };
}

async function checkEndpoints(
  run: LocalRun,
  secrets: LocalSecrets,
  note: (text: string) => void,
): Promise<EndpointCheck[]> {
  const key = secrets.values.SERVICE_API_KEY;
  const look = async (path: string, headers: Record<string, string> = {}): Promise<EndpointCheck> => {
    return reach(run.tools, `${run.url}${path}`, { headers }, async (response) => {
      await response.arrayBuffer();
      return { path, status: response.status, ok: response.ok };
    });
  };
  const agents = await look("/agents/health", key === undefined ? {} : { "X-API-Key": key });
  const checks: EndpointCheck[] = [
    await look(HEALTH_PATH),
    key === undefined && agents.status === 401
      ? { ...agents, ok: true, note: "needs the key: use --generate-api-key to create one for the check" }
      : agents,
    await look("/docs"),
  ];
  note(checks.map((check) => `${check.path} ${check.status}`).join(", "));
  const [bad] = checks.filter((check) => !check.ok);
  if (bad === undefined) return checks;
  throw new DeployError("unhealthy", `${run.url}${bad.path} answered ${bad.status}`, {
    log: await containerLogs(run),
    outcome: 'The service is running; "svc deploy local --stop" removes it',
    fix:
      bad.status === 401
        ? "The key differs from the service's own: see SERVICE_API_KEY"
        : "See the lines above",
  });
}

/**
 * Rejects if a container was created from different files: another folder deployed under this name in the
 * meantime; and if an instance has ended.
 */
async function confirmContainers(run: LocalRun, hash: string, count: number): Promise<void> {
  const { tools, project, serviceName } = run;
  const filter = `label=com.docker.compose.project=${project}`;
  const format = `{{.Label "${CONTEXT}"}} {{.Image}} {{.Label "com.docker.compose.service"}}`;
  const { stdout } = await tools.exec("docker", ["ps", "--filter", filter, "--format", format]);
  const containers = stdout
    .trim()
    .split("\n")
    .map((line) => line.split(" "))
    .filter(([context, , service]) => context !== "" && service !== "proxy");
  const other = containers.find(([context]) => context !== hash);
  if (other === undefined && containers.length >= count) return;
  if (other === undefined && containers.length > 0)
    throw new DeployError("unhealthy", `${containers.length} of ${count} instances run`, {
      log: await containerLogs(run),
      outcome: "Their containers are left so that you can inspect them; svc deploy local --stop removes them",
    });
  const [serving = "", image] = other ?? [];
  const found =
    image === undefined
      ? undefined
      : { id: project, revision: serving || undefined, image, url: undefined, status: "" };
  throw superseded(serviceName, found);
}

async function containerLogs({ tools, project }: LocalRun): Promise<string[]> {
  const filter = `label=com.docker.compose.project=${project}`;
  const format = `{{.ID}} {{.State}} {{.Label "com.docker.compose.service"}}`;
  const list = await tools.exec("docker", ["ps", "--all", "--filter", filter, "--format", format]);
  const lines = list.stdout.trim().split("\n");
  // One that has ended says why; the proxy says nothing.
  const line =
    lines.find((one) => / (exited|dead) /.test(one)) ?? lines.find((one) => / service(-|$)/.test(one));
  const [id] = (line ?? lines[0] ?? "").split(" ");
  if (!id) return [];
  const { stdout, stderr } = await tools.exec("docker", ["logs", "--tail", LOG_LINES, id]);
  return `${stdout}${stderr}`.trimEnd().split("\n");
}
