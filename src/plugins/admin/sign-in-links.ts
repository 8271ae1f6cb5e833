import { createHash, randomBytes } from "node:crypto";
import type { SignInLink, SignInLinks } from "../../core/service/tokens.ts";

const MINUTES = 5;
/** Maximum number of unused links. */
const MOST = 20;

/** One-time sign-in links, known to this process only; stored as hashes. */
export class OneTimeLinks implements SignInLinks {
  readonly #clock: () => Date;
  readonly #open = new Map<string, number>();

  constructor(clock: () => Date) {
    this.#clock = clock;
  }

  create(base: string): SignInLink {
    const token = randomBytes(24).toString("base64url");
    const expiresAt = new Date(this.#clock().getTime() + MINUTES * 60_000);
    const oldest = this.#open.keys().next().value;
    if (this.#open.size >= MOST && oldest !== undefined) this.#open.delete(oldest);
    this.#open.set(hash(token), expiresAt.getTime());
    return { url: `${base.replace(/\/+$/, "")}/admin/sign-in?token=${token}`, expiresAt };
  }

  /** Whether the token is valid, without using it up. */
  isOpen(token: string): boolean {
    const until = this.#open.get(hash(token));
    return until !== undefined && until > this.#clock().getTime();
  }

  /** Whether the token is valid; it is valid only once. */
  take(token: string): boolean {
    const isOpen = this.isOpen(token);
    this.#open.delete(hash(token));
    return isOpen;
  }

  /** Invalidates all unused links. */
  close(): void {
    this.#open.clear();
  }
}

function hash(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}
