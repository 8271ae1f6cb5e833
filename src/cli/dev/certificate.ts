import { X509Certificate } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { dirname, join } from "node:path";
import type { Certificate } from "../../core/http/serve.ts";

/** Milliseconds that a kept certificate must still be valid. */
const LEAST_LEFT = 24 * 3_600_000;

/** Where `svc dev --https` keeps its certificate: a browser that has accepted it does not ask again. */
export function certificateFile(dataDir: string): string {
  return join(dataDir, "dev-tls", "cert.pem");
}

/** The kept certificate, where it is valid for these hosts. */
export function readCertificate(dataDir: string, hosts: readonly string[]): Certificate | undefined {
  const file = certificateFile(dataDir);
  if (!existsSync(file)) return undefined;
  const kept = { cert: readFileSync(file, "utf8"), key: readFileSync(keyFile(file), "utf8") };
  const certificate = new X509Certificate(kept.cert);
  const isFor = (host: string) => (isIP(host) ? certificate.checkIP(host) : certificate.checkHost(host));
  const isValid = Date.parse(certificate.validTo) - Date.now() > LEAST_LEFT;
  return isValid && hosts.every((host) => isFor(host) !== undefined) ? kept : undefined;
}

export async function keepCertificate(dataDir: string, { cert, key }: Certificate): Promise<void> {
  const file = certificateFile(dataDir);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeFile(keyFile(file), key, { mode: 0o600 });
  await writeFile(file, cert, { mode: 0o600 });
}

function keyFile(file: string): string {
  return join(dirname(file), "key.pem");
}
