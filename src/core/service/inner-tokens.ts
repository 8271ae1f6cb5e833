import { createToken } from "../base/container.ts";
import type { Hooks } from "../entities/hooks.ts";
import type { Ledger } from "../entities/ledger.ts";

/*
 * Parts that the service keeps to itself. Plugins have `hooks.emit` for their own hooks and `participate` in their
 * place: with these two, anybody could announce or store a change that never happened.
 */

/** Emits the service's own hooks. */
export const EMITTER = createToken<Hooks>("emitter");
/** Writes jobs and cases. */
export const LEDGER = createToken<Ledger>("ledger");
