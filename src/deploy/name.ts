import { basename } from "node:path";
import { DeployError } from "./errors.ts";

const RULE = /^[a-z](?:[a-z0-9-]*[a-z0-9])?$/;
/** A DNS label: the strictest limit that all platforms share; a platform may be stricter. */
const LONGEST = 63;

/** The name of an environment: a part of the service's name. */
export const ENVIRONMENT_NAME = /^[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?$/;

/** Text as a service name: lower case, words joined by hyphens. */
export function toName(text: string): string {
  return text
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^[^a-z]+/, "")
    .replace(/-+$/, "");
}

/** The base name of a service: as typed, else the folder's. */
export function resolveName(typed: string | undefined, cwd: string): string {
  if (typed !== undefined) {
    checkName(typed, `--name ${typed}`);
    return typed;
  }
  const name = toName(basename(cwd));
  if (name === "")
    throw new DeployError(
      "usage",
      `The folder name "${basename(cwd)}" cannot be turned into a service name`,
      {
        fix: "Set a name with --name, such as --name invoices",
      },
    );
  return name;
}

/** `${name}-${environment}`, checked against the rules that all platforms share. */
export function toServiceName(name: string, environment: string): string {
  const serviceName = `${name}-${environment}`;
  if (serviceName.length > LONGEST)
    throw new DeployError("usage", `The service name "${serviceName}" has ${serviceName.length} characters`, {
      detail: `At most ${LONGEST} are allowed, including "-${environment}"`,
      fix: `Choose a shorter one with --name (at most ${LONGEST - environment.length - 1} characters)`,
    });
  return serviceName;
}

function checkName(name: string, shown: string): void {
  if (RULE.test(name)) return;
  const better = toName(name);
  throw new DeployError("usage", `${shown}: not a service name`, {
    detail:
      "A name has lower-case letters, digits and hyphens, starts with a letter and ends with a letter or digit",
    ...(better === "" ? {} : { fix: `Try --name ${better}` }),
  });
}
