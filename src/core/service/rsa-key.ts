import { createPrivateKey } from "node:crypto";

/** The keys of a text that has one or several, one after the other. */
export function rsaKeysIn(pems: string | undefined): string[] {
  return pems?.match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----/g)?.map((pem) => pem.trim()) ?? [];
}

/** Whether a text consists of PEM private keys that parameters can be encrypted for. */
export function areRsaPrivateKeys(pems: string): boolean {
  const keys = rsaKeysIn(pems);
  const rest = keys.reduce((left, key) => left.replace(key, ""), pems);
  return keys.length > 0 && keys.every(isRsaPrivateKey) && rest.trim() === "";
}

/** Whether a text is a PEM private key that parameters can be encrypted for. */
export function isRsaPrivateKey(pem: string): boolean {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(pem);
    return asymmetricKeyType === "rsa" && (asymmetricKeyDetails?.modulusLength ?? 0) >= 2048;
  } catch {
    return false;
  }
}
