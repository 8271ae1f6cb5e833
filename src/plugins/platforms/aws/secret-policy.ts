import type { SecretRef } from "../../../deploy/platform.ts";

/** Lets a role read exactly the given secrets; undefined if there are none. */
export function secretPolicy(secrets: Readonly<Record<string, SecretRef | undefined>>): object | undefined {
  const arns = Object.values(secrets).flatMap((secret) => (secret ? [parseSecretRef(secret.ref).arn] : []));
  if (arns.length === 0) return undefined;
  return {
    Version: "2012-10-17",
    Statement: [
      { Effect: "Allow", Action: "secretsmanager:GetSecretValue", Resource: [...new Set(arns)].sort() },
    ],
  };
}

/**
 * A secret by its full name and version, as ECS expects it:
 * `arn:aws:secretsmanager:…:secret:name-AbCdEf:::version`.
 */
export function toSecretRef(arn: string, version: string): string {
  return `${arn}:::${version}`;
}

export function parseSecretRef(ref: string): { readonly arn: string; readonly version: string } {
  const parts = ref.split(":");
  return { arn: parts.slice(0, 7).join(":"), version: parts[9] ?? "" };
}
