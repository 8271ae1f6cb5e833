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
