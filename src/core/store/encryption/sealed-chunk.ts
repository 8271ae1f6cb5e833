import type { Keyring } from "./keyring.ts";

/** Before the sealed bytes of a part of a file: it says what they are without any key. */
const HEAD = Buffer.from("svc sealed 1\n");

/** Bytes that a sealed part has in addition. */
const ADDED = HEAD.length + 49;

function isSealedChunk(stored: Uint8Array): boolean {
  return HEAD.equals(stored.subarray(0, HEAD.length));
}

/** What is stored of a part of a file under a key of the storage: no other key opens it. */
export function sealChunk(keys: Keyring, key: string, bytes: Uint8Array): Uint8Array {
  return keys.sealsWith === undefined ? bytes : Buffer.concat([HEAD, keys.seal(bytes, [key])]);
}

/** The `size` bytes of a part of a file; what is not sealed is given back as it is, also where it begins as a sealed one does. */
export function openChunk(keys: Keyring, key: string, stored: Buffer, size: number): Buffer {
  if (stored.length !== size + ADDED || !isSealedChunk(stored)) return stored;
  return keys.open(stored.subarray(HEAD.length), [key], "A part of a file");
}

/** The same where the size is not known. Who reads it compares it with what it must be: other bytes may begin as a sealed part does. */
export function openAnyChunk(keys: Keyring, key: string, stored: Buffer): Buffer {
  if (stored.length < ADDED) return stored;
  try {
    return openChunk(keys, key, stored, stored.length - ADDED);
  } catch {
    return stored;
  }
}
