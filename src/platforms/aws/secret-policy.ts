import type { SecretRef } from "../../deploy/platform.ts";
import { parseSecretRef } from "./secret-ref.ts";

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
