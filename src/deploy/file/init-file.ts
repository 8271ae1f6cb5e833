import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { isMap, isScalar, isSeq, type Pair, parseDocument, Scalar, stringify, type YAMLMap } from "yaml";
import { readIfThere } from "../../core/base/read-if-there.ts";
import { writeAtomic } from "../atomic-file.ts";
import { DATABASE_URL, OLD_CONFIG, parseConfig } from "../config.ts";
import { DeployError } from "../errors.ts";
import { ignoreFolder, refuseLinks } from "../files.ts";
import type { Platform } from "../platform.ts";
import { DEPLOY_FILE } from "./deploy-file.ts";

/** Folder of the secret values that a migration found in `config.yaml`. */
const VALUES = ".deployment/values";

/** Settings to begin with, by key, in this order. */
export type FirstSettings = Readonly<Record<string, string | number | boolean>>;

export interface InitOutcome {
  /** What was moved from `.deployment/config.yaml`, as text. */
  readonly moved: readonly string[];
  /** What people have to decide before a deployment to prod, as text. */
  readonly undecided: readonly string[];
}

const HEAD = `# yaml-language-server: $schema=./node_modules/agent-control-service/dist/deploy.schema.json
#
# Settings of svc deploy. Commit this file: with it, "svc deploy up --env prod" is the whole command.
# Each option of "svc deploy up" can be written here: --min-instances is minInstances. A typed option goes first.
# What is not here stays as it runs. No secret values here.
`;

const VARIABLES = `
# Plain variables of the service. "NAME: null" removes one.
# variables:
#   LOG_LEVEL: debug
`;

const SECRETS = `
# Names of secrets. Their values go from where the command runs to the platform's vault.
# secrets:
#   ERP_TOKEN:                                # the environment variable ERP_TOKEN
#   PAY_TOKEN: { env: PAY_TOKEN_LIVE }        # another variable
#   SIGNING_KEY: { file: ../signing.pem }     # a file outside of the project, or in .deployment/
`;

/** Nobody's consent is written for them: it is a comment, and a deployment to prod demands one of its lines. */
const STORE = (platform: string) => `
# Where jobs are stored. ${platform} wipes a container's files at each deployment, restart and scale-down: without one of
# these lines jobs are lost then, and "--env prod" is refused. Or list the secret SERVICE_DATABASE_URL, of a Postgres database.
# storage: create                             # a bucket, if the platform creates some; or the URL of one
# store: file                                 # files: the loss of jobs is accepted
`;

const ENVIRONMENTS = `
# What differs between environments (--env). A name may be a pattern, such as preview-*.
# environments:
#   prod:
#     variables:
#       LOG_LEVEL: warn
`;

/** Lines of the `config.yaml` that earlier versions wrote: they are no longer true. */
const OLD_LINES =
  /What `svc deploy` passes|not committed|without a value takes it|While nothing is set|variables and secrets that it does not list|^ ?Plain variables, as text|^ ?Stored in the platform's secret store|^ ?Where jobs and cases are stored|own disk, which most platforms|^ ?(environment|secrets):$|^ {3}(LOG_LEVEL: "debug"|- name: ERP_TOKEN)$|^ {5}description: token for the ERP$|^ ?store: external$/;

/**
 * Writes `deploy.yaml`, with what `.deployment/config.yaml` sets. Values of secrets move to files in
 * `.deployment/values`. `config.yaml` is removed last: a killed run leaves it, and loses nothing.
 */
export async function initFile(
  cwd: string,
  first: FirstSettings,
  platform: Pick<Platform, "name" | "ephemeralDisk">,
): Promise<InitOutcome> {
  const path = join(cwd, DEPLOY_FILE);
  if ((await readIfThere(path)) !== undefined)
    throw new DeployError("usage", `${DEPLOY_FILE} already exists`, {
      outcome: "It was not changed",
      fix: "Edit it, or remove it first; svc deploy plan checks it",
    });
  await refuseLinks(cwd, ["config.yaml", "values"]);
  const old = await readIfThere(join(cwd, OLD_CONFIG));
  const { file } = parseConfig(old ?? "");
  const migrated = file === undefined || old === undefined ? undefined : migrate(old);
  for (const [name, value] of Object.entries(migrated?.values ?? {})) {
    const folder = join(cwd, VALUES);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeAtomic(join(folder, name), value, 0o600);
  }
  const settings = Object.keys(first).length === 0 ? "" : `\n${stringify(first)}`;
  const has = (key: string) => migrated?.keys.includes(key);
  const isUndecided =
    platform.ephemeralDisk === true && first.storage === undefined && !has("store") && !has("storage");
  const parts = [
    HEAD,
    settings,
    isUndecided ? STORE(platform.name) : "",
    has("variables") ? "" : VARIABLES,
    has("secrets") ? "" : SECRETS,
    migrated ? `\n${migrated.text}` : "",
    ENVIRONMENTS,
  ];
  await ignoreFolder(cwd);
  await writeAtomic(path, parts.join(""), 0o644);
  if (old !== undefined) await rm(join(cwd, OLD_CONFIG), { force: true });
  const undecided = isUndecided ? [undecidedStore(platform.name)] : [];
  return { moved: migrated?.moved ?? [], undecided };
}

/** What `deploy.yaml` does not say yet, for a platform whose disk does not last. */
export function undecidedStore(platform: string): string {
  return `where jobs are stored; ${platform} wipes files, so "svc deploy up --env prod" is refused. In ${DEPLOY_FILE}: "storage" (a bucket), the secret ${DATABASE_URL}, or "store: file", which accepts the loss`;
}

interface Migrated {
  readonly text: string;
  readonly keys: readonly string[];
  readonly values: Readonly<Record<string, string>>;
  readonly moved: readonly string[];
}

/** The content of a `config.yaml` in the terms of `deploy.yaml`; comments stay. */
function migrate(text: string): Migrated {
  const document = parseDocument(text);
  const values: Record<string, string> = {};
  const moved: string[] = [];
  const map = document.contents as YAMLMap;
  const kept: Pair[] = [];
  for (const pair of map.items as Pair[]) {
    const key = pair.key as Scalar;
    if (pair.value === null || (isScalar(pair.value) && pair.value.value === null)) continue;
    if (key.value === "environment") key.value = "variables";
    if (key.value === "secrets" && isSeq(pair.value)) {
      const secrets = document.createNode({}) as YAMLMap;
      for (const item of pair.value.items) {
        if (!isMap(item)) continue;
        const name = String(item.get("name"));
        const value = item.get("value");
        if (typeof value === "string") values[name] = value;
        const source = {
          ...(typeof value === "string" ? { file: `${VALUES}/${name}` } : {}),
          ...(item.has("description") ? { description: item.get("description") } : {}),
        };
        const node = document.createNode(Object.keys(source).length === 0 ? null : source);
        const named = new Scalar(name);
        // What is above the first entry belongs to the list.
        const above =
          item.commentBefore ?? (secrets.items.length === 0 ? pair.value.commentBefore : undefined);
        if (above) named.commentBefore = above;
        if (node && item.comment) node.comment = item.comment;
        secrets.items.push(document.createPair(named, node) as Pair);
      }
      pair.value = secrets;
    }
    kept.push(pair);
    moved.push(
      isMap(pair.value)
        ? `${String(key.value)} ${pair.value.items.map((item) => String((item.key as Scalar).value)).join(", ")}`
        : String(key.value),
    );
  }
  map.items = kept as YAMLMap["items"];
  document.commentBefore = withoutOld(document.commentBefore);
  map.commentBefore = withoutOld(map.commentBefore);
  document.comment = withoutOld(document.comment);
  for (const { key } of kept) (key as Scalar).commentBefore = withoutOld((key as Scalar).commentBefore);
  return {
    text: document.toString(),
    keys: kept.map(({ key }) => String((key as Scalar).value)),
    values,
    moved,
  };
}

function withoutOld(comment: string | null | undefined): string | null {
  const lines = (comment ?? "").split("\n").filter((line) => !OLD_LINES.test(line));
  const text = lines.join("\n").trim();
  return text === "" ? null : ` ${text}`;
}
