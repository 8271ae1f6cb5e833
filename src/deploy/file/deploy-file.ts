import { readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import * as v from "valibot";
import { type Document, isMap, isNode, isScalar, LineCounter, type Pair, parseDocument } from "yaml";
import { describeIssue } from "../../core/base/describe-issue.ts";
import { isAtOrBelow } from "../../core/base/is-at-or-below.ts";
import { isRecord } from "../../core/base/is-record.ts";
import { readIfThere } from "../../core/base/read-if-there.ts";
import { passwordIn } from "../../core/base/redactor.ts";
import { suggest } from "../../core/base/suggest.ts";
import { type DeployConfig, describeSetting, isSecretOnly, readConfig, SET_BY_OPTIONS } from "../config.ts";
import { DeployError } from "../errors.ts";
import { ENVIRONMENT_NAME } from "../name.ts";
import type { DeployOptions } from "../options.ts";
import type { Platform } from "../platform.ts";
import { findSecret } from "../secret-forms.ts";
import { withoutLineEnd } from "../without-line-end.ts";
import { CONTENTS, isText, PART, PLATFORM, SETTINGS, type SecretSource } from "./settings.ts";

/** Name of the committed settings, beside package.json. */
export const DEPLOY_FILE = "deploy.yaml";

/** What `deploy.yaml` sets for one environment on one platform. Absent means keep: nothing is removed. */
export interface FileSettings {
  /** Options that every platform has. */
  readonly options: Partial<DeployOptions>;
  /** Options of the platform. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly config: DeployConfig;
}

/** A parsed `deploy.yaml`. */
export interface DeployFile {
  /** Names and patterns of the environments that it lists. */
  readonly environments: readonly string[];
  /** The platform that it names for an environment. Rejects an environment that it does not list. */
  platformOf(environment: string): string | undefined;
  /**
   * Checks what it sets for an environment, and reads the values of its secrets. Without a platform, the options of
   * platforms are not checked.
   */
  read(
    environment: string,
    platform: Pick<Platform<never>, "name" | "flags"> | undefined,
    env: Readonly<Record<string, string | undefined>>,
  ): Promise<FileSettings>;
}

type Part = Readonly<Record<string, unknown>>;
type Path = readonly string[];

/** The usual environments: always allowed. */
const USUAL: readonly string[] = ["dev", "staging", "prod"];

/** Reads `deploy.yaml`; undefined if there is none. An error names line and column. */
export async function openDeployFile(cwd: string): Promise<DeployFile | undefined> {
  const text = await readIfThere(join(cwd, DEPLOY_FILE));
  return text === undefined ? undefined : parseDeployFile(text, cwd);
}

/** The settings of a project for one environment: those of `deploy.yaml`, else those of `.deployment/config.yaml`. */
export async function readSettings(
  cwd: string,
  environment: string,
  platform: Pick<Platform<never>, "name" | "flags"> | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<FileSettings> {
  const file = await openDeployFile(cwd);
  if (file === undefined) return { options: {}, flags: {}, config: await readConfig(cwd) };
  return file.read(environment, platform, env);
}

/** Parses the text of a `deploy.yaml` of a project folder. */
export function parseDeployFile(text: string, cwd: string): DeployFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const fail = (path: Path, message: string) => wrong(positionOf(document, lines, path), path, message);
  const [broken] = document.errors;
  if (broken) {
    const { line, col } = lines.linePos(broken.pos[0]);
    throw wrong({ line, col }, [], broken.message.split("\n")[0]?.replace(/ at line .*$/, "") ?? "not YAML");
  }
  const content: unknown = document.toJS() ?? {};
  const top = toPart(content, [], fail);
  const { environments: listed, ...common } = top;
  const environments = toPart(listed ?? {}, ["environments"], fail);
  for (const [name, part] of Object.entries(environments)) {
    if (!ENVIRONMENT_NAME.test(name.replace(/\*$/, "x")))
      throw fail(
        ["environments", name],
        "must be lower-case letters, digits and hyphens, starting with a letter, such as prod or preview-*",
      );
    toPart(part ?? {}, ["environments", name], fail);
  }

  /** The key of an environment's own part: its name, else a pattern such as `preview-*`. */
  function keyOf(environment: string): string | undefined {
    const keys = Object.keys(environments);
    const found =
      keys.find((key) => key === environment) ??
      keys.find((key) => key.endsWith("*") && environment.startsWith(key.slice(0, -1)));
    if (found !== undefined || keys.length === 0 || USUAL.includes(environment)) return found;
    const meant = suggest(environment, keys);
    throw new DeployError("usage", `--env ${environment}: ${DEPLOY_FILE} does not list this environment`, {
      fix: meant
        ? `Did you mean ${meant}?`
        : `Add it under "environments", by name or by a pattern such as preview-*`,
    });
  }

  return {
    environments: Object.keys(environments),
    platformOf(environment) {
      const key = keyOf(environment);
      const own = key === undefined ? undefined : (environments[key] as Part | null)?.platform;
      const found = own ?? common.platform;
      if (found === undefined || typeof found === "string") return found;
      throw fail(own === undefined ? ["platform"] : ["environments", key ?? "", "platform"], "must be text");
    },
    async read(environment, platform, env) {
      const key = keyOf(environment);
      const own = (key === undefined ? undefined : (environments[key] as Part | null)) ?? {};
      const merged = merge(common, own);
      const pathOf = (path: Path): Path => {
        const inOwn = key !== undefined && hasIn(own, path);
        return inOwn ? ["environments", key, ...path] : path;
      };
      const failAt = (path: Path, message: string) => fail(pathOf(path), message);
      const platformEntries = platform?.flags.entries ?? {};
      const entries = { ...PART, ...platformEntries };
      for (const name of Object.keys(merged)) {
        if (name in entries || platform === undefined) continue;
        const meant = suggest(name, Object.keys(entries));
        throw failAt([name], unknown(name, platform.name, meant));
      }
      const [given, optional] = [{ ...merged } as Record<string, unknown>, {} as v.ObjectEntries];
      for (const [name, entry] of Object.entries(entries)) {
        if (given[name] === null && !(name in CONTENTS)) throw failAt([name], "has no value");
        if (typeof given[name] === "number" && isText(entry)) given[name] = String(given[name]);
        if (name in given) optional[name] = entry;
      }
      const parsed = v.safeParse(v.strictObject(optional), given);
      if (!parsed.success) {
        const [issue] = parsed.issues;
        throw failAt(
          (issue.path ?? []).map((item) => String(item.key)),
          complaint(issue),
        );
      }
      const settings = parsed.output as Part;
      const pick = (names: object) =>
        Object.fromEntries(
          Object.keys(names)
            .filter((name) => settings[name] !== undefined)
            .map((name) => [name, settings[name]]),
        );
      const options = Object.fromEntries(
        Object.entries(pick(SETTINGS)).filter(([name]) => !(name in platformEntries)),
      );
      const flags = pick(
        Object.fromEntries(
          Object.entries(platformEntries).filter(([name]) => !(name in PLATFORM || name in CONTENTS)),
        ),
      );
      return { options, flags, config: await toConfig(settings, { cwd, env, failAt }) };
    },
  };
}

/** Variables and secrets of the settings, the secrets with the values that are known here. */
async function toConfig(
  settings: Part,
  {
    cwd,
    env,
    failAt,
  }: {
    readonly cwd: string;
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly failAt: (path: Path, message: string) => DeployError;
  },
): Promise<DeployConfig> {
  const variables = (settings.variables ?? {}) as Record<string, string | null>;
  const secrets = (settings.secrets ?? {}) as Record<string, SecretSource | null>;
  const removed: string[] = [];
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(variables)) {
    const path = ["variables", name];
    if (SET_BY_OPTIONS.includes(name)) throw failAt(path, describeSetting(name));
    if (isSecretOnly(name)) throw failAt(path, 'is a secret: list its name under "secrets"');
    if (name in secrets) throw failAt(path, "is also a secret: keep only one of them");
    if (value === null) {
      removed.push(name);
      continue;
    }
    const form = findSecret(value)?.kind ?? (passwordIn(value) === undefined ? undefined : "a password");
    if (form !== undefined)
      throw failAt(
        path,
        `contains ${form}, and this file is committed: list the name under "secrets" and pass the value in the environment; replace the value if it was committed`,
      );
    environment[name] = value;
  }
  const known: DeployConfig["secrets"][number][] = [];
  for (const [name, source] of Object.entries(secrets)) {
    const path = ["secrets", name];
    if (SET_BY_OPTIONS.includes(name)) throw failAt(path, describeSetting(name));
    const { env: variable, file, command, ref, remove } = source ?? {};
    if ([variable, file, command, ref, remove].filter((one) => one !== undefined).length > 1)
      throw failAt(path, 'must have only one of "env", "file", "command", "ref" and "remove"');
    const pasted = findSecret(command ?? "")?.kind;
    if (pasted !== undefined)
      throw failAt([...path, "command"], `contains ${pasted}, and this file is committed: replace the value`);
    if (remove) {
      removed.push(name);
      continue;
    }
    if (file !== undefined)
      known.push({
        name,
        value: await readSecretFile(cwd, file, [...path, "file"], failAt),
        source: /[./\\]/.test(file) ? file : `./${file}`,
      });
    else
      known.push({
        name,
        // A secret without a source is read from the environment later, where all commands look for it.
        value: variable === undefined ? undefined : withoutLineEnd(env[variable]),
        source: variable ?? name,
        ...(command === undefined ? {} : { command }),
        ...(ref === undefined ? {} : { ref }),
      });
  }
  const store = settings.store as DeployConfig["store"];
  const hooks = (settings.hooks ?? {}) as NonNullable<DeployConfig["hooks"]>;
  const release = settings.release as DeployConfig["release"];
  const labels = (settings.labels ?? {}) as Record<string, string | null>;
  for (const [name, value] of Object.entries(labels)) {
    const found = findSecret(value ?? "")?.kind;
    if (found !== undefined) throw failAt(["labels", name], `contains ${found}: labels are not secret`);
  }
  return {
    environment,
    secrets: known,
    labels,
    store,
    release,
    hooks,
    removed,
    known: false,
    file: DEPLOY_FILE,
  };
}

/** The text of a secret's file; undefined where it is absent, as in a fresh clone. */
async function readSecretFile(
  cwd: string,
  file: string,
  path: Path,
  failAt: (path: Path, message: string) => DeployError,
): Promise<string | undefined> {
  const full = resolve(cwd, file);
  const inside = relative(cwd, full);
  const isInside = inside !== "" && isAtOrBelow(full, cwd);
  if (isInside && !/^\.deployment[/\\]/.test(inside))
    throw failAt(
      path,
      "must be outside of the project or in .deployment/: elsewhere it would be committed, and become part of the image",
    );
  try {
    const text = await readFile(full, "utf8");
    return withoutLineEnd(text);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw failAt(path, `cannot be read: ${(error as NodeJS.ErrnoException).code ?? "unknown error"}`);
  }
}

function toPart(content: unknown, path: Path, fail: (path: Path, message: string) => DeployError): Part {
  if (isRecord(content)) return content as Part;
  throw fail(path, 'must be names with values, such as "region: europe-west1"');
}

/** The environment's own part over the common one; variables, secrets and labels by name. */
function merge(common: Part, own: Part): Part {
  const merged: Record<string, unknown> = { ...common, ...own };
  for (const name of ["variables", "secrets", "labels"]) {
    const [one, other] = [common[name], own[name]];
    if (isRecord(one) && isRecord(other)) merged[name] = { ...one, ...other };
    else if (isRecord(one) && (other === null || other === undefined)) merged[name] = one;
  }
  return merged;
}

function hasIn(part: Part, path: Path): boolean {
  let at: unknown = part;
  for (const name of path) {
    if (!isRecord(at) || !(name in at)) return false;
    at = at[name];
  }
  return true;
}

function unknown(name: string, platform: string, meant: string | undefined): string {
  if (meant !== undefined) return `is unknown. Did you mean ${meant}?`;
  if (name.includes("-"))
    return `is unknown: options are written without hyphens, as ${name.replace(/-+(\w)/g, (_, letter: string) => letter.toUpperCase())}`;
  return `is not an option of ${platform}. An option of only some environments is written under "environments"`;
}

/** The issue's own text quotes the received value, which may be a secret. */
function complaint(issue: v.BaseIssue<unknown>): string {
  if (issue.type === "strict_object" && issue.expected === "never")
    return issue.path?.[0]?.key === "hooks"
      ? "is unknown here; hooks are beforeBuild and afterRelease"
      : "is unknown here; a secret has env, file, command, ref, remove and description";
  return describeIssue(issue);
}

/** Where a key is, else the nearest key around it. */
function positionOf(document: Document, lines: LineCounter, path: Path): { line: number; col: number } {
  let offset = 0;
  let node: unknown = document.contents;
  for (const name of path) {
    if (!isMap(node)) break;
    const pair = node.items.find(({ key }) => String(isScalar(key) ? key.value : key) === name) as
      | Pair
      | undefined;
    if (pair === undefined) break;
    if (isNode(pair.key) && pair.key.range) offset = pair.key.range[0];
    node = pair.value;
  }
  return lines.linePos(offset);
}

function wrong(at: { line: number; col: number }, path: Path, message: string): DeployError {
  const subject = path.length === 0 ? "" : `${path.join(".")} `;
  return new DeployError(
    "bad_config",
    `${DEPLOY_FILE}, line ${at.line}, column ${at.col}: ${subject}${message}`,
    {
      fix: "Fix the file and run the command again; docs/deploy.md describes it",
    },
  );
}
