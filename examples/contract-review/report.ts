import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import type { FileValue } from "agent-control-service";
import type { Clause } from "./clauses.ts";

/** A clause with what a person has decided about it. */
export interface Decision {
  readonly clause: Clause;
  readonly findings: readonly string[];
  readonly verdict: string;
  readonly note: string | undefined;
}

/** The report as Markdown. It names the contract by its hash, so that it is about no other one. */
export function writeReport(contract: FileValue, clauses: number, decisions: readonly Decision[]): string {
  const parts = decisions.map(({ clause, findings, verdict, note }) => [
    `## ${clause.number}. ${clause.title}: ${verdict}`,
    `Page ${clause.page}. ${findings.join(" ")}`,
    `> ${clause.text}`,
    ...(note ? [`Note: ${note}`] : []),
  ]);
  const head = [
    `# Review of ${contract.name}`,
    `SHA-256 of the contract: \`${contract.sha256}\``,
    `${clauses} clauses, ${decisions.length} of them decided by a person.`,
  ];
  return `${[...head, ...parts.flat()].join("\n\n")}\n`;
}

export interface Signed {
  readonly signature: Buffer;
  /** The key to verify it with, as PEM. */
  readonly publicKey: string;
}

/**
 * Signs a report with Ed25519. Without a key, one is made for this report and forgotten: the signature then shows that
 * the report was not changed since, and not who has signed it.
 */
export function signReport(report: string, pem: string | undefined): Signed {
  const key = pem ? createPrivateKey(pem) : generateKeyPairSync("ed25519").privateKey;
  if (key.asymmetricKeyType !== "ed25519") throw new Error("SIGNING_KEY must be an Ed25519 key as PEM");
  const publicKey = createPublicKey(key).export({ type: "spki", format: "pem" }).toString();
  return { signature: sign(null, Buffer.from(report), key), publicKey };
}

/** The hash of a public key, by which people recognize it. */
export function fingerprintOf(publicKey: string): string {
  return createHash("sha256").update(publicKey).digest("hex").slice(0, 16);
}
