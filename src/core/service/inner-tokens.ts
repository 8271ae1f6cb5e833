import { createToken } from "../base/container.ts";
import type { Hooks } from "../entities/hooks.ts";
import type { Ledger } from "../entities/ledger.ts";
import type { FileSweep } from "../retention/file-sweep.ts";
import type { Emissions } from "../runs/emissions/emissions.ts";
import type { ResolvedSchedule } from "../runs/schedules/define-schedule.ts";

/*
 * Internal parts of the service. Plugins use `hooks.emit` for their own hooks and `participate` instead: with
 * these two, any plugin could announce or store a change that never happened.
 */

/** Emits the service's own hooks. */
export const EMITTER = createToken<Hooks>("emitter");
/** What steps under way emit. */
export const EMISSIONS = createToken<Emissions>("emissions");
/** Removes files that nothing names. */
export const FILE_SWEEP = createToken<FileSweep>("file sweep");
/** Writes jobs and cases. */
export const LEDGER = createToken<Ledger>("ledger");
/** The schedules, checked against their agents. */
export const SCHEDULES = createToken<readonly ResolvedSchedule[]>("schedules");
