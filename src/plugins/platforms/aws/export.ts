import { stringify } from "yaml";
import { DeployError } from "../../../deploy/errors.ts";
import type { ReleaseSpec } from "../../../deploy/platform.ts";
import type { AwsContext } from "./aws-context.ts";
import { listSecrets } from "./secrets.ts";

/** The spec with the references of its secrets. Rejects one that is not stored: its full name is not known before. */
export async function withStoredSecrets(context: AwsContext, spec: ReleaseSpec): Promise<ReleaseSpec> {
  const stored = await listSecrets(context);
  const secrets = Object.fromEntries(
    Object.entries(spec.secrets).map(([name, ref]) => [name, ref ?? stored.find((one) => one.name === name)]),
  );
  const missing = Object.keys(secrets).filter((name) => secrets[name] === undefined);
  if (missing.length === 0) return { ...spec, secrets };
  throw new DeployError(
    "usage",
    `Secrets that are not stored yet cannot be exported: ${missing.join(", ")}`,
    {
      detail: "AWS gives each secret a name that is known only once it is stored",
      outcome: "Nothing was written",
      fix: "Deploy once with svc deploy up, which stores the secrets and makes the roles",
    },
  );
}

/** A template of CloudFormation with one resource. */
export function cloudFormation(type: string, properties: object): string {
  return stringify(
    {
      AWSTemplateFormatVersion: "2010-09-09",
      Resources: { Service: { Type: type, Properties: properties } },
    },
    { lineWidth: 0, aliasDuplicateObjects: false },
  );
}

/** Names of an object, and of what is in it, as CloudFormation writes them: `containerPort` as `ContainerPort`. */
export function capitalized(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(capitalized);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, one]) => one !== undefined)
      .map(([name, one]) => [name.charAt(0).toUpperCase() + name.slice(1), capitalized(one)]),
  );
}
