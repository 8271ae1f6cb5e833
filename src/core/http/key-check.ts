import { hash, timingSafeEqual } from "node:crypto";

/** Bytes of a key that are compared as they are; a longer one is compared by its digest. */
const LONGEST = 252;

/** Tells whether a key is the right one; how long that takes depends on what was sent alone. */
export class KeyCheck {
  readonly #right: Buffer;
  /** Where the key that was sent is laid out, so that a check makes nothing new. */
  readonly #sent = layOut("", Buffer.alloc(LONGEST + 4));

  constructor(key: string) {
    this.#right = layOut(key, Buffer.alloc(LONGEST + 4));
  }

  isRight(key: string): boolean {
    return timingSafeEqual(layOut(key, this.#sent), this.#right);
  }
}

/** All keys fill the same number of bytes, their own length included: comparing them tells nothing about either. */
function layOut(key: string, into: Buffer): Buffer {
  const length = Buffer.byteLength(key);
  into.fill(0);
  into.writeUInt32LE(length, 0);
  if (length <= LONGEST) into.write(key, 4);
  else hash("sha256", key, "buffer").copy(into, 4);
  return into;
}
