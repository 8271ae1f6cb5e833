import { existsSync } from "node:fs";
import { DATABASE_URL } from "../config.ts";
import { DeployError } from "../errors.ts";
import type { Project } from "../project.ts";
import type { LocalRun } from "./local-run.ts";
import { POSTGRES_PASSWORD, secretFile } from "./local-secrets.ts";

/** What a local test with a database consists of, besides the proxy in front of the instances. */
export interface LocalDatabase {
  /** Names of the containers. */
  readonly instances: readonly string[];
  /** Image of the database beside them; absent if the URL of another one is given. */
  readonly image: string | undefined;
}

const IMAGE = "postgres:17";

/**
 * The database and the instances of a local test, if it has any. Options that are not given keep what was started
 * last: a test that began with a database stays with it until `--stop`.
 */
export async function findDatabase(run: LocalRun): Promise<LocalDatabase | undefined> {
  const { options, tools, config } = run;
  const isBeside = existsSync(secretFile(run, POSTGRES_PASSWORD));
  const isElsewhere =
    config.secrets.some(({ name }) => name === DATABASE_URL) || Boolean(tools.env[DATABASE_URL]);
  if (options.instances === undefined && !isBeside) return undefined;
  const started = options.filesOnly ? [] : await startedContainers(run);
  const before = started.filter(({ service }) => /^service(-\d+)?$/.test(service)).length;
  const count = options.instances ?? Math.max(1, before);
  const image =
    options.postgresImage ?? started.find(({ service }) => service === "postgres")?.image ?? IMAGE;
  return {
    instances: Array.from({ length: count }, (_, at) => `service-${at + 1}`),
    image: isElsewhere && !isBeside ? undefined : image,
  };
}

/** Rejects a project that cannot use a database. */
export function checkDatabasePackage({ dependencies, packageManager }: Project): void {
  if (dependencies.includes("pg")) return;
  throw new DeployError("preflight", 'Several instances share a database, which needs the package "pg"', {
    detail: "package.json does not list it",
    outcome: "Nothing was built",
    fix: `${packageManager} ${packageManager === "npm" ? "install" : "add"} pg`,
  });
}

async function startedContainers({ tools, project }: LocalRun) {
  const filter = `label=com.docker.compose.project=${project}`;
  const format = '{{.Label "com.docker.compose.service"}}\t{{.Image}}';
  const { code, stdout } = await tools.exec("docker", [
    "ps",
    "--all",
    "--filter",
    filter,
    "--format",
    format,
  ]);
  const lines = code === 0 ? stdout.trim().split("\n") : [];
  return lines.map((line) => {
    const [service = "", image] = line.split("\t");
    return { service, image };
  });
}
