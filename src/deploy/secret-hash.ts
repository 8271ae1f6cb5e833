import { scrypt } from "node:crypto";

/**
 * Hash of a secret's value, to detect changes. It is stored in state files and annotations, so guessing a
 * short value from it must be expensive: therefore scrypt, salted with the secret's purpose, so that every
 * machine computes the same hash.
 */
export async function hashSecret(value: string, scope: { target: string; name: string }): Promise<string> {
  const salt = `svc deploy ${scope.target} ${scope.name}`;
  const key = await new Promise<Buffer>((resolve, reject) => {
    scrypt(value, salt, 16, { N: 2 ** 14, r: 8, p: 1 }, (error, made) =>
      error ? reject(error) : resolve(made),
    );
  });
  return key.toString("hex");
}
