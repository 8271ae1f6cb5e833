import { hash, timingSafeEqual } from "node:crypto";

/** Bytes of a key that are compared directly; a longer one is compared by its digest. */
const LONGEST = 252;

/** Checks a key; the time it takes depends only on what was sent. */
export class KeyCheck {
  readonly #right: Buffer;
  /** Buffer for the received key, so that a check allocates nothing. */
  readonly #sent = layOut("", Buffer.alloc(LONGEST + 4));

  constructor(key: string) {
    this.#right = layOut(key, Buffer.alloc(LONGEST + 4));
  }

  isRight(key: string): boolean {
    return timingSafeEqual(layOut(key, this.#sent), this.#right);
  }
}

/**
 * All keys fill the same number of bytes, including their length: comparing them reveals nothing about
 * either.
 */
function layOut(key: string, into: Buffer): Buffer {
  const length = Buffer.byteLength(key);
  into.fill(0);
  into.writeUInt32LE(length, 0);
  if (length <= LONGEST) into.write(key, 4);
  else hash("sha256", key, "buffer").copy(into, 4);
  return into;
}
