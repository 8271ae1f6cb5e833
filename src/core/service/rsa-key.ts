import { createPrivateKey } from "node:crypto";

/** Whether a text is a PEM private key that parameters can be encrypted for. */
export function isRsaPrivateKey(pem: string): boolean {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(pem);
    return asymmetricKeyType === "rsa" && (asymmetricKeyDetails?.modulusLength ?? 0) >= 2048;
  } catch {
    return false;
  }
}
