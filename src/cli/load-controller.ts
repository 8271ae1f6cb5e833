import { existsSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Service } from "../core/service/service.ts";
import type { CliContext } from "./context.ts";
import { CliError } from "./errors.ts";
import { readSecretFiles } from "./secret-files.ts";

const DEFAULT_FILES = ["src/controller.ts", "src/controller.js", "controller.ts", "controller.js"];
const EXPORT_LINE = "export default createServer({ agents: [myAgent] });";

/** The controller file of a command: the one given, else the first default that exists. */
export function findController(file: string | undefined, cwd: string): string {
  const found = (file ? [file] : DEFAULT_FILES).find((one) => existsSync(resolve(cwd, one)));
  if (found && statSync(resolve(cwd, found)).isDirectory()) {
    throw new CliError(`${found} is a folder`, {
      detail: `Pass the file in it that exports your service: svc start ${join(found, "controller.ts")}`,
    });
  }
  if (found) return resolve(cwd, found);
  throw new CliError(`File ${file ?? DEFAULT_FILES[0]} does not exist`, {
    detail: "Pass the file that exports your service, or create a project with: svc init my-service",
  });
}

/**
 * Loads a controller file, TypeScript or JavaScript, and returns the service that it exports. Its code finds `variables`
 * in the environment, and those that the files of secrets have. The service takes its secrets out of the environment:
 * what a command needs of them is in the `env` of its context.
 */
export async function loadController(
  path: string,
  { cwd }: Pick<CliContext, "cwd">,
  variables: Readonly<Record<string, string>> = {},
): Promise<Service> {
  const name = relative(cwd, path);
  readSecretFiles(process.env);
  // Isolated agents are loaded again, in processes of their own.
  Object.assign(process.env, variables, { SVC_CONTROLLER: path });
  const module = await importFile(path).catch((error: unknown) => {
    throw explain(error, name, path);
  });
  const exported: unknown = await defaultExport(module);
  if (isService(exported)) return exported;
  throw new CliError(`${name} ${describeExport(exported)}`, {
    detail: `Its last line should be: ${EXPORT_LINE}`,
  });
}

async function importFile(path: string): Promise<unknown> {
  if (/\.m?js$/.test(path)) return import(pathToFileURL(path).href);
  const [{ createJiti }, { cachedTransform }] = await Promise.all([
    import("jiti"),
    import("./transform-cache.ts"),
  ]);
  // The cache of jiti itself may be in a folder that other users can write to, and it fails on a full disk.
  const options = { fsCache: false, interopDefault: false };
  const plain = createJiti(import.meta.url, options);
  const transform = cachedTransform(dirname(path), (one) => plain.transform(one));
  return createJiti(import.meta.url, {
    ...options,
    transform: (one) => ({ code: transform(one) }),
  }).import(path);
}

function defaultExport(module: unknown): unknown {
  const outer = (module as { default?: unknown }).default;
  return isService(outer) ? outer : ((outer as { default?: unknown } | undefined)?.default ?? outer);
}

/** Checked by shape because the project may use another copy of this package. */
function isService(value: unknown): value is Service {
  return (
    typeof value === "object" &&
    value !== null &&
    ["fetch", "ready", "listen", "close"].every((name) => typeof (value as never)[name] === "function")
  );
}

function describeExport(value: unknown): string {
  if (value === undefined) return "has no default export";
  if (typeof value === "function") return "exports a function, not a service";
  if (Array.isArray(value)) return "exports a list, not a service";
  const isAgent = typeof value === "object" && value !== null && "methods" in value;
  return isAgent ? "exports an agent, not a service" : "has a default export that is not a service";
}

/** Errors that already say what to do are passed through. */
function explain(error: unknown, name: string, path: string): unknown {
  if (!(error instanceof Error))
    return new CliError(`${name} could not be loaded`, { detail: String(error) });
  if (["OptionsError", "PluginError", "AgentError", "ServiceError"].includes(error.name)) return error;
  const missing = /Cannot find (?:module|package) '([^']+)'/.exec(error.message)?.[1];
  if (isCommonJs(error, path)) {
    const detail =
      'Its package.json makes .js files CommonJS modules: add "type": "module" to it, or name the file with .mjs or .ts.';
    return new CliError(`${name} is an ES module, and is loaded as CommonJS`, { detail, cause: error });
  }
  const isPackage = missing !== undefined && /^[@a-z]/i.test(missing);
  const detail = isPackage
    ? `${missing} is not installed. Install it: npm install ${missing}`
    : place(error, path);
  return new CliError(`${name} could not be loaded`, { detail, cause: error });
}

/** Whether Node takes a module for what its package.json says of its files. */
function isCommonJs(error: Error, path: string): boolean {
  return (
    path.endsWith(".js") &&
    error instanceof SyntaxError &&
    /import statement outside a module|Unexpected token 'export'|await is only valid/.test(error.message)
  );
}

/** The error with the stack lines that belong to the project. */
function place(error: Error, path: string): string {
  const folder = resolve(path, "..");
  const lines = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  const own = lines.filter((line) => line.includes(folder) && !line.includes("node_modules"));
  return [error.message.replaceAll(/\s+\n\s*/g, "\n"), ...own.slice(0, 5).map((line) => line.trim())].join(
    "\n",
  );
}
