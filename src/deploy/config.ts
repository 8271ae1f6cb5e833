import { join } from "node:path";
import * as v from "valibot";
import { type Document, isNode, LineCounter, parseDocument } from "yaml";
import { isNumberedKey } from "../core/base/numbered-keys.ts";
import { readIfThere } from "../core/base/read-if-there.ts";
import { DeployError } from "./errors.ts";

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const VariableSchema = v.pipe(
  v.string(),
  v.regex(VARIABLE, "must be a variable name: letters, digits and _, not starting with a digit"),
);

/** `.deployment/config.yaml`. */
const DeployConfigSchema = v.strictObject({
  /** Plain variables of the service. */
  environment: v.nullish(
    v.record(VariableSchema, v.string("must be text: put quotes around numbers, true and false")),
    {},
  ),
  /**
   * A secret without a value takes it from the environment variable of the same name where the deploy runs.
   */
  secrets: v.nullish(
    v.array(
      v.strictObject({
        name: VariableSchema,
        value: v.nullish(v.string("must be text: put quotes around it")),
        description: v.nullish(v.string()),
      }),
    ),
    [],
  ),
  /**
   * Where jobs and cases are stored: in files of the container, or outside it (a plugin's database, a mounted
   * disk).
   */
  store: v.nullish(v.picklist(["file", "external"], 'must be "file" or "external"')),
});

export interface DeployConfig {
  readonly environment: Readonly<Record<string, string>>;
  readonly secrets: readonly {
    readonly name: string;
    readonly value: string | undefined;
    /** Where its value would be: a variable or a file. @default the variable of its name */
    readonly source?: string;
    /** A command that prints its value. */
    readonly command?: string;
    /** The secret in the platform's vault that it is: its value is not known here. */
    readonly ref?: string;
  }[];
  /** Labels of the service by name; null removes one. */
  readonly labels?: Readonly<Record<string, string | null>>;
  /** As written; what counts besides it is whether there is a database. */
  readonly store: "file" | "external" | undefined;
  /** Variables and secrets that the service no longer receives. */
  readonly removed?: readonly string[];
  /**
   * Whether these are all variables and secrets, as in `config.yaml`: what it does not list is removed. Otherwise
   * the running service keeps what is not listed.
   */
  readonly known: boolean;
  /** The command that a new release runs once, before it gets traffic. */
  readonly release?: string | undefined;
  /** Commands of the project that `svc deploy up` runs on this machine. */
  readonly hooks?: { readonly beforeBuild?: string | undefined; readonly afterRelease?: string | undefined };
  /** The file that this was read from, if there is one. */
  readonly file?: string;
}

/** Variables that hold secrets of the service itself, wherever they are set. */
export const SERVICE_SECRETS = ["SERVICE_API_KEY", "SERVICE_RSA_PRIVATE_KEY"] as const;
/** The secret that moves a service's jobs and cases into a Postgres database. */
export const DATABASE_URL = "SERVICE_DATABASE_URL";
/** Variables of the service that must not be plain variables. */
const SECRETS_ONLY: readonly string[] = [
  ...SERVICE_SECRETS,
  "SERVICE_PREVIOUS_API_KEY",
  "SERVICE_PREVIOUS_RSA_PRIVATE_KEY",
  "SERVICE_ENCRYPTION_KEYS",
  "SERVICE_ACCOUNT_API_KEY",
  DATABASE_URL,
];
/** Whether a variable of the service must not be a plain one. */
export const isSecretOnly = (name: string) => SECRETS_ONLY.includes(name) || isNumberedKey(name);
/** The names of all such variables, with those that only this environment has. */
export const secretsOnlyOf = (env: Readonly<Record<string, string | undefined>>) => [
  ...SECRETS_ONLY,
  ...Object.keys(env).filter(isNumberedKey),
];
/** The variable that has a service store its jobs and cases in a bucket; set by the option `storage`. */
export const STORAGE_URL = "SERVICE_STORAGE_URL";
/** Records for later deployments where the jobs are stored; set if that is external. */
export const STORE = "SERVICE_STORE";
/**
 * Records with a release which files its image was built from, so that any checkout can tell whether it has the same.
 */
export const CONTEXT = "SVC_CONTEXT";
/** Records with a release what it is made of, by which it is recognized: see `releaseMark`. */
export const RELEASE = "SVC_RELEASE";
/** Variables that say what a release is, and are no part of what it does. */
export const MARKS: readonly string[] = [CONTEXT, RELEASE];
/** Variables that are derived from the command's options. */
export const SET_BY_OPTIONS: readonly string[] = [
  "SERVICE_HOST",
  "SERVICE_PORT",
  "SERVICE_ENVIRONMENT",
  "PORT",
  STORE,
  STORAGE_URL,
  ...MARKS,
];
/** Why one of them cannot be written as a variable. */
export function describeSetting(name: string): string {
  return name === STORAGE_URL
    ? "is set by the option storage: write its value there"
    : "is set by the options of svc deploy: remove it";
}
/** The variable that says when an environment expires; set by the option `expires`. */
export const EXPIRES = "SVC_EXPIRES";
/** Variables that svc sets by itself. */
export const OURS: readonly string[] = [...SET_BY_OPTIONS, "SERVICE_PUBLIC_URL", EXPIRES];

/** Where the configuration was before there was a committed `deploy.yaml`. */
export const OLD_CONFIG = join(".deployment", "config.yaml");

/** Reads the configuration of a project without a `deploy.yaml`; an error names the line. */
export async function readConfig(cwd: string): Promise<DeployConfig> {
  return parseConfig((await readIfThere(join(cwd, OLD_CONFIG))) ?? "");
}

/** Parses the text of a `config.yaml`. A file with only comments counts as empty. */
export function parseConfig(text: string): DeployConfig {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const [broken] = document.errors;
  if (broken) throw wrong(lines.linePos(broken.pos[0]).line, broken.message.split("\n")[0] ?? "not YAML");
  const content: unknown = document.toJS() ?? undefined;
  const parsed = v.safeParse(DeployConfigSchema, content ?? {});
  if (!parsed.success) {
    const [issue] = parsed.issues;
    const path = (issue.path ?? []).map((item) => item.key as string | number);
    throw wrong(lineOf(document, lines, path), `${path.join(".") || "the file"}: ${explain(issue)}`);
  }
  const { environment, secrets, store } = parsed.output;
  const seen = new Set<string>();
  secrets?.forEach(({ name }, index) => {
    const line = lineOf(document, lines, ["secrets", index]);
    if (seen.has(name)) throw wrong(line, `secret ${name} is listed twice`);
    if (environment?.[name] !== undefined)
      throw wrong(line, `${name} is both a secret and a plain variable: keep only one of them`);
    seen.add(name);
  });
  for (const name of Object.keys(environment ?? {})) {
    const line = lineOf(document, lines, ["environment", name]);
    if (isSecretOnly(name)) throw wrong(line, `${name} is a secret: move it to "secrets"`);
    if (SET_BY_OPTIONS.includes(name)) throw wrong(line, `${name} ${describeSetting(name)}`);
  }
  return {
    environment: environment ?? {},
    secrets: (secrets ?? []).map(({ name, value }) => ({ name, value: value ?? undefined })),
    store: store ?? undefined,
    known: says(content),
    ...(says(content) ? { file: OLD_CONFIG } : {}),
  };
}

/** Whether anything is set: a heading without content sets nothing. */
function says(content: unknown): boolean {
  return Object.values(content ?? {}).some((section) => section !== null);
}

function explain(issue: v.BaseIssue<unknown>): string {
  if (issue.type === "strict_object" && issue.expected === "never")
    return 'is unknown; a config has "environment", "secrets" and "store"';
  // The issue's own text quotes the received value, which may be a secret.
  return issue.message.startsWith("must ") ? issue.message : `must be ${issue.expected ?? "something else"}`;
}

function lineOf(document: Document, lines: LineCounter, path: readonly (string | number)[]): number {
  for (let length = path.length; length > 0; length--) {
    const node = document.getIn(path.slice(0, length), true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return 1;
}

function wrong(line: number, message: string): DeployError {
  return new DeployError("bad_config", `.deployment/config.yaml, line ${line}: ${message}`, {
    fix: "Fix the file and run the command again; docs/deploy.md describes its format",
  });
}
